"""ListGroups, DescribeGroups and DeleteGroups through the wire, in every version and with every error."""

from __future__ import annotations

import pytest

from ottla.broker.operations import NOT_ASKED, ON_GROUP
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from support.group_wire import GroupMember, commit, fetch


@pytest.fixture
def wire(connect):
    return connect()


@pytest.fixture
def groups(wire, connect, group):
    """A group with a member, one that only has offsets, and one whose leader is to assign."""
    wire.create(f"t-{group}")
    commit(wire, group + "-empty", {(f"t-{group}", 0): 1})
    stable, completing = GroupMember(connect(), group + "-stable", "t"), GroupMember(connect(), group + "-completing")
    stable.join()
    stable.sync({stable.id: b"given"})
    completing.join(protocol_type="connect")
    return stable, completing


def listed(wire, group, version, **filters):
    reply = wire.call(messages.ListGroupsRequest(**filters), version)
    assert reply.error_code == 0
    return {
        one.group_id.removeprefix(group + "-"): (one.protocol_type, one.group_state, one.group_type)
        for one in reply.groups
        if one.group_id.startswith(group)
    }


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(wire, group, groups, version):
    def shown(protocol, state):
        return protocol, state if version >= 4 else "", "classic" if version >= 5 else ""

    assert listed(wire, group, version) == {
        "stable": shown("consumer", "Stable"),
        "empty": shown("", "Empty"),
        "completing": shown("connect", "CompletingRebalance"),
    }


def test_groups_are_listed_by_state_and_type_whatever_the_case(wire, group, groups):
    assert set(listed(wire, group, 4, states_filter=["stable", "EMPTY"])) == {"stable", "empty"}
    assert set(listed(wire, group, 5, states_filter=["Dead"])) == set()
    assert set(listed(wire, group, 5, types_filter=["Classic"], states_filter=["Empty"])) == {"empty"}
    assert listed(wire, group, 5, types_filter=["consumer"]) == {}
    assert listed(wire, group, 5, types_filter=["nonsense"]) == {}


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_in_every_version(wire, group, groups, version):
    stable, completing = groups
    names = [f"{group}-{kind}" for kind in ("stable", "empty", "completing", "missing")]
    reply = wire.call(messages.DescribeGroupsRequest(groups=names), version)
    told, empty, unfinished, missing = reply.groups
    assert [one.group_id for one in reply.groups] == names
    assert [one.error_code for one in reply.groups[:3]] == [0, 0, 0]
    assert (told.group_state, told.protocol_type, told.protocol_data) == ("Stable", "consumer", "range")
    (member,) = told.members
    assert (member.member_id, member.client_id, member.client_host) == (stable.id, "test", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (stable.metadata, b"given")
    assert (empty.group_state, empty.protocol_type, empty.members) == ("Empty", "", [])
    assert (unfinished.group_state, unfinished.protocol_data) == ("CompletingRebalance", "")
    assert [(one.member_id, one.member_metadata) for one in unfinished.members] == [(completing.id, b"")]
    assert (missing.group_state, missing.members) == ("Dead", [])
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert bool(missing.error_message) == (version >= 6)
    assert told.authorized_operations == NOT_ASKED


@pytest.mark.parametrize("version", range(3, 7))
def test_what_a_client_may_do_is_told_if_asked(wire, group, groups, version):
    request = messages.DescribeGroupsRequest(groups=[f"{group}-stable"], include_authorized_operations=True)
    assert wire.call(request, version).groups[0].authorized_operations == ON_GROUP


@pytest.mark.parametrize("version", range(4, 7))
def test_static_members_are_described_with_their_instance(wire, connect, group, version):
    member = GroupMember(connect(), group, instance="i-1")
    member.join()
    (told,) = wire.call(messages.DescribeGroupsRequest(groups=[group]), version).groups
    assert told.members[0].group_instance_id == "i-1"


@pytest.mark.parametrize("version", range(3))
def test_groups_without_members_are_deleted_with_their_offsets(wire, group, groups, version):
    names = [f"{group}-{kind}" for kind in ("stable", "empty", "completing", "missing", "empty")]
    reply = wire.call(messages.DeleteGroupsRequest(groups_names=names), version)
    full = ErrorCode.NON_EMPTY_GROUP
    assert [(one.group_id, one.error_code) for one in reply.results] == [
        (names[0], full),
        (names[1], 0),
        (names[2], full),
        (names[3], ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert set(listed(wire, group, 5)) == {"stable", "completing"}
    assert fetch(wire, names[1]) == []


def test_a_group_whose_members_have_left_can_be_deleted_and_begin_anew(wire, connect, group):
    member = GroupMember(connect(), group)
    member.join()
    member.sync({member.id: b""})
    member.leave()
    assert wire.call(messages.DeleteGroupsRequest(groups_names=[group]), 2).results[0].error_code == 0
    assert member.join().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    member.id = ""
    assert member.join().generation_id == 1
