"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup through the wire, in every version and with every error.

What groups do, tests/groups/classic tells as stories; here: whether the requests reach them and the answers return.
"""

from __future__ import annotations

import pytest

from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from support.group_wire import GroupMember, members_of


@pytest.fixture
def member(connect, group):
    def make(*topics, **options):
        return GroupMember(connect(), group, *topics, **options)

    return make


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_in_every_version_and_from_4_on_is_given_an_id_first(member, version):
    a = member("t")
    first = a.joined(a.send_join(version))
    if version >= 4:
        assert (first.error_code, first.generation_id, first.members) == (ErrorCode.MEMBER_ID_REQUIRED, -1, [])
        assert first.protocol_name == ("" if version < 7 else None)
        first = a.joined(a.send_join(version))
    assert (first.error_code, first.generation_id, first.protocol_name) == (0, 1, "range")
    assert first.protocol_type == ("consumer" if version >= 7 else None)
    assert first.leader == first.member_id
    assert first.member_id.startswith("test-")
    assert [(one.member_id, one.metadata) for one in first.members] == [(a.id, a.metadata)]
    assert not first.skip_assignment


@pytest.mark.parametrize("version", range(6))
def test_members_sync_in_every_version(member, version):
    a, b = member("t"), member("t")
    a.join()
    waiting = b.send_join(3)
    a.notice()
    again = a.join()
    b.joined(waiting)
    assert (again.generation_id, len(again.members), b.generation) == (2, 2, 2)
    waiting = b.send_sync(version=version)
    leader = a.sync({a.id: b"for a", b.id: b"for b"}, version)
    follower = b.synced(waiting, version)
    assert (leader.assignment, follower.assignment) == (b"for a", b"for b")
    named = ("consumer", "range") if version >= 5 else (None, None)
    assert (leader.protocol_type, leader.protocol_name) == (follower.protocol_type, follower.protocol_name) == named


@pytest.mark.parametrize("version", range(5))
def test_heartbeats_in_every_version(member, version):
    a = member()
    a.join()
    a.sync({a.id: b""})
    assert a.beat(version) == ErrorCode.NONE
    assert a.beat(version, generation_id=7) == ErrorCode.ILLEGAL_GENERATION
    assert a.beat(version, member_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(6))
def test_leaving_in_every_version(member, version):
    a = member()
    a.join()
    assert a.leave(version, member_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert a.leave(version) == ErrorCode.NONE
    assert a.leave(version) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3, 6))
def test_several_leave_at_once_each_with_its_own_result(member, version):
    a, b = member(instance="a"), member()
    a.join()
    waiting = b.send_join(3)
    a.notice()
    a.join()
    b.joined(waiting)
    Leaving = messages.LeaveGroupRequest.Member
    gone = [
        Leaving(member_id=b.id, group_instance_id=None, reason="done"),
        Leaving(member_id="", group_instance_id="a"),
        Leaving(member_id="nobody", group_instance_id=None),
        Leaving(member_id="", group_instance_id="nobody"),
    ]
    reply = a.wire.call(messages.LeaveGroupRequest(group_id=a.group, members=gone), version)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert reply.error_code == 0
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in reply.members] == [
        (b.id, None, 0),
        ("", "a", 0),
        ("nobody", None, unknown),
        ("", "nobody", unknown),
    ]


def test_requests_about_a_group_that_is_not_there(member):
    nobody = member()
    nobody.id = "x"
    assert nobody.join().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert nobody.sync().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert nobody.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert nobody.leave(2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert nobody.leave(3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_id_is_refused(connect):
    nobody = GroupMember(connect(), "")
    assert nobody.join().error_code == ErrorCode.INVALID_GROUP_ID
    assert nobody.sync().error_code == ErrorCode.INVALID_GROUP_ID
    assert nobody.beat() == ErrorCode.INVALID_GROUP_ID
    assert nobody.leave() == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", [0, 4, 9])
def test_session_timeouts_have_bounds(member, version):
    for timeout in (-1, 0, 5_999, 1_800_001):
        reply = member().join(version, session_timeout_ms=timeout)
        assert (reply.error_code, reply.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "")
    assert member().join(version, session_timeout_ms=6_000, rebalance_timeout_ms=6_000).error_code == 0


def test_protocols_that_do_not_fit_are_refused(member):
    a = member()
    a.join()
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert member().join(protocols={}).error_code == inconsistent
    assert member().join(protocols={"sticky": b""}).error_code == inconsistent
    assert member().join(protocol_type="connect").error_code == inconsistent
    assert member().join(protocol_type="").error_code == inconsistent
    assert a.sync(protocol_name="sticky").error_code == inconsistent
    assert a.sync(protocol_type="connect").error_code == inconsistent


def test_a_static_member_is_replaced_and_its_former_self_fenced(member):
    old, new = member(instance="i"), member(instance="i")
    old.join()
    old.sync({old.id: b"mine"})
    back = new.join()
    assert (back.error_code, back.generation_id, back.skip_assignment) == (0, 1, True)
    assert (back.leader, [one.group_instance_id for one in back.members]) == (new.id, ["i"])
    assert new.id.startswith("i-")
    assert new.sync().assignment == b"mine"
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert old.beat() == fenced
    assert old.join().error_code == fenced
    assert old.sync().error_code == fenced
    assert old.leave() == fenced
    assert new.beat() == 0


def test_a_member_that_waits_when_its_connection_breaks_stays_in_the_group(member):
    a, b = member(), member()
    a.join()
    b.send_join(3)
    a.notice()
    b.wire.close()
    again = a.join()
    assert (again.generation_id, len(again.members)) == (2, 2)


def test_a_member_that_is_silent_is_out_after_its_session(serve):
    served = serve(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=50, offsets_topic_num_partitions=1)
    a, b = GroupMember(served.wire(), "g"), GroupMember(served.wire(), "g")
    while a.join().error_code == ErrorCode.NOT_COORDINATOR:  # it comes without asking for one
        pass
    waiting = b.send_join(3, session_timeout_ms=50)
    a.notice()
    a.join()
    b.joined(waiting)
    a.sync({a.id: b"x"})
    while a.beat() == ErrorCode.NONE:
        pass
    assert len(a.join().members) == 1
    assert b.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_waits_for_more_members_as_long_as_it_is_told(serve):
    served = serve(group_initial_rebalance_delay_ms=300, offsets_topic_num_partitions=1)
    a, b = GroupMember(served.wire(), "g"), GroupMember(served.wire(), "g")
    while a.joined(a.send_join()).error_code == ErrorCode.NOT_COORDINATOR:
        pass
    waiting = a.send_join()
    assert b.join().generation_id == 1
    assert len(a.joined(waiting).members) == 2


def test_a_full_group_takes_no_more(serve):
    served = serve(group_initial_rebalance_delay_ms=0, group_max_size=1, offsets_topic_num_partitions=1)
    a, b = GroupMember(served.wire(), "g"), GroupMember(served.wire(), "g")
    while a.join().error_code == ErrorCode.NOT_COORDINATOR:
        pass
    for version in (3, 9):
        assert b.join(version).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert a.beat() == 0


def test_many_members_join_and_get_their_parts(connect, group, until):
    first = GroupMember(connect(), group)
    first.join()
    others = [GroupMember(connect(), group) for _ in range(49)]
    waiting = [one.send_join(3) for one in others]
    until(lambda: members_of(first.wire, group) == 50)
    first.join()
    for one, sent in zip(others, waiting, strict=True):
        one.joined(sent)
    everybody = [first, *others]
    syncs = [one.send_sync() for one in others]
    first.sync({one.id: one.id.encode() for one in everybody})
    assert [one.synced(sent).assignment.decode() for one, sent in zip(others, syncs, strict=True)] == [
        one.id for one in others
    ]
