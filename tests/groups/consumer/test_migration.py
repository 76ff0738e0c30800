"""Groups with members of both protocols, and their moves from one to the other, told as stories."""

from __future__ import annotations

import pytest

from ottla.groups.classic.group import ClassicGroup
from support.consumer_story import Story

CLASSIC = """
    topic t 4
    A enters t                   => A: MEMBER_ID_REQUIRED
    A enters t                   => A: generation 1
    A syncs A=t:0,1,2,3          => A: given t:0,1,2,3
"""
MIXED = (
    CLASSIC
    + """
    B joins t                    => B: epoch 2 has nothing, again in 1000
    A pulses                     => A: REBALANCE_IN_PROGRESS
    A enters t owns=t:0,1,2,3    => A: generation 1
    A syncs                      => A: given t:0,1
    A pulses                     => A: REBALANCE_IN_PROGRESS
    A enters t owns=t:0,1        => A: generation 2
    A syncs                      => A: given t:0,1
    A pulses                     => A: alive
    B beats                      => B: epoch 2 has t:2,3
"""
)


@pytest.fixture
def classic() -> Story:
    story = Story()
    story.tell(CLASSIC)
    return story


@pytest.fixture
def mixed() -> Story:
    story = Story()
    story.tell(MIXED)
    return story


def is_classic(story: Story) -> bool:
    return isinstance(story.groups["g"].core, ClassicGroup)


# -- upgrade


def test_a_classic_group_that_a_member_of_the_new_protocol_joins_becomes_a_consumer_group(mixed):
    assert mixed.group.state_name == "Stable"
    assert mixed.group.members[mixed.ids["A"]].profile.classic is not None
    kinds = {key[1] for key in mixed.stored}
    assert kinds == {3, 5, 6, 7, 8}, "nothing is left of the classic group"


def test_members_that_wait_for_a_rebalance_are_told_to_join_again(classic):
    classic.tell("""
        B enters t                   => B: MEMBER_ID_REQUIRED
        B enters t
        C joins t                    => B: REBALANCE_IN_PROGRESS; C: epoch 2 has nothing, again in 1000
        B enters t                   => B: generation 2
        B syncs                      => B: given nothing
    """)


def test_members_that_wait_for_their_assignment_are_told_to_join_again(classic):
    classic.tell("""
        B enters t                   => B: MEMBER_ID_REQUIRED
        B enters t
        A enters t                   => A: generation 2; B: generation 2
        B syncs
        C joins t                    => B: REBALANCE_IN_PROGRESS; C: epoch 3 has nothing, again in 1000
    """)


def test_an_eager_member_that_gave_up_everything_before_it_joins_is_given_its_part(classic):
    classic.tell("""
        B joins t                    => B: epoch 2 has nothing, again in 1000
        A pulses                     => A: REBALANCE_IN_PROGRESS
        A enters t                   => A: generation 2
        A syncs                      => A: given t:0,1
        B beats                      => B: epoch 2 has t:2,3
    """)


def test_a_refused_member_leaves_a_classic_group_as_it_is(classic):
    before = dict(classic.stored)
    classic.tell("B joins t regex=(  => B: INVALID_REGULAR_EXPRESSION")
    assert is_classic(classic)
    assert classic.stored == before
    classic.tell("A pulses           => A: alive")


@pytest.mark.parametrize("settings", [{"may_upgrade": False}, {"max_size": 0}])
def test_a_classic_group_that_may_not_or_cannot_become_one_refuses(settings):
    story = Story(**settings)
    story.tell(
        CLASSIC
        + """
        B joins t                    => B: GROUP_ID_NOT_FOUND
        B beats epoch=1              => B: GROUP_ID_NOT_FOUND
        B leaves                     => B: GROUP_ID_NOT_FOUND
        A pulses                     => A: alive
    """
    )


def test_a_group_of_something_else_than_consumers_refuses():
    story = Story()
    story.tell("""
        topic t 1
        A enters t type=connect      => A: MEMBER_ID_REQUIRED
        A enters t type=connect      => A: generation 1
        B joins t                    => B: GROUP_ID_NOT_FOUND
    """)


def test_an_empty_classic_group_gives_way(classic):
    classic.tell("""
        A quits                      => A: has quit
        B joins t                    => B: epoch 1 has t:0,1,2,3
    """)
    assert {key[1] for key in classic.stored} == {3, 5, 6, 7, 8}


def test_a_member_that_classic_sessions_would_have_ended_is_out_in_the_consumer_group_too(mixed):
    mixed.tell("""
        wait 9999
        B beats                      => B: epoch 2
        wait 1
        A pulses                     => A: UNKNOWN_MEMBER_ID
        B beats                      => B: epoch 3 has t:0,1,2,3
    """)


# -- classic members at work


def test_a_classic_member_joins_a_consumer_group_and_shares(mixed):
    mixed.tell("""
        C enters t                   => C: MEMBER_ID_REQUIRED
        C enters t                   => C: generation 3
        C syncs                      => C: given nothing
        C pulses                     => C: alive
        B beats                      => B: epoch 2 has t:2
        B beats owns=t:2             => B: epoch 3
        C pulses                     => C: REBALANCE_IN_PROGRESS
        C enters t                   => C: generation 3
        C syncs                      => C: given t:3
        C pulses                     => C: alive
    """)


def test_a_classic_member_that_does_not_join_again_in_time_is_out(mixed):
    mixed.tell("topic t 6")
    for _ in range(7):
        mixed.do("B beats")
        mixed.tell("""
            A pulses                 => A: REBALANCE_IN_PROGRESS
            wait 8000
        """)
    mixed.tell("""
        A pulses                     => A: REBALANCE_IN_PROGRESS
        wait 3999
        A pulses                     => A: REBALANCE_IN_PROGRESS
        wait 1
        A pulses                     => A: UNKNOWN_MEMBER_ID
    """)


def test_a_classic_member_that_does_not_ask_for_its_assignment_in_time_is_out(mixed):
    mixed.tell("""
        topic t 6
        A enters t owns=t:0,1        => A: generation 3
    """)
    for _ in range(7):
        mixed.do("B beats")
        mixed.tell("""
            A pulses                 => A: alive
            wait 8000
        """)
    mixed.tell("""
        A pulses                     => A: alive
        wait 4000
        A pulses                     => A: UNKNOWN_MEMBER_ID
    """)


def test_requests_of_classic_members_are_checked(mixed):
    mixed.tell("""
        A pulses epoch=1             => A: ILLEGAL_GENERATION
        A syncs epoch=1              => A: ILLEGAL_GENERATION
        A syncs protocol=sticky      => A: INCONSISTENT_GROUP_PROTOCOL
        A syncs type=connect         => A: INCONSISTENT_GROUP_PROTOCOL
        A pulses id=x                => A: UNKNOWN_MEMBER_ID
        A pulses instance=x          => A: UNKNOWN_MEMBER_ID
        B pulses                     => B: UNKNOWN_MEMBER_ID
        B syncs                      => B: UNKNOWN_MEMBER_ID
        B quits                      => B: UNKNOWN_MEMBER_ID
        A quits id=x                 => A: UNKNOWN_MEMBER_ID
        C enters t type=connect      => C: INCONSISTENT_GROUP_PROTOCOL
        C enters t protocols=sticky  => C: INCONSISTENT_GROUP_PROTOCOL
        A commits epoch=1 of=t:2     => A: ILLEGAL_GENERATION
        A commits of=t:0 v=3         => A: committed
        A fetches epoch=1            => A: ILLEGAL_GENERATION
        A pulses                     => A: alive
        C enters t v=3               => C: generation 3
    """)


def test_a_classic_member_that_is_behind_is_told_to_join_instead_of_its_assignment(mixed):
    mixed.tell("""
        topic t 6
        A syncs                      => A: REBALANCE_IN_PROGRESS
    """)


def test_no_classic_member_may_join_where_migration_is_switched_off():
    story = Story(may_upgrade=False, may_downgrade=False)
    story.tell("""
        topic t 1
        A joins t                    => A: epoch 1 has t:0
        B enters t                   => B: INCONSISTENT_GROUP_PROTOCOL
    """)


def test_a_group_with_both_kinds_of_members_is_read_back(mixed):
    before = dict(mixed.stored)
    mixed.tell("""
        restart
        A pulses                     => A: alive
        B beats                      => B: epoch 2
        wait 9999
    """)
    assert mixed.stored == before
    mixed.tell("""
        wait 1
        A pulses                     => A: UNKNOWN_MEMBER_ID
    """)


# -- downgrade


def test_when_the_last_member_of_the_new_protocol_leaves_the_group_is_classic_again(mixed):
    mixed.tell("""
        B leaves                     => B: left
        A pulses                     => A: REBALANCE_IN_PROGRESS
        A enters t                   => A: generation 3
        A syncs A=t:0,1,2,3          => A: given t:0,1,2,3
        A pulses                     => A: alive
    """)
    assert is_classic(mixed)
    assert {key[1] for key in mixed.stored} == {2}
    mixed.tell("""
        restart
        A pulses                     => A: alive
        wait 10000
        A pulses                     => A: UNKNOWN_MEMBER_ID
    """)


def test_when_the_last_member_of_the_new_protocol_is_lost_the_group_is_classic_again(mixed):
    for _ in range(4):
        mixed.tell("""
            wait 9000
            A pulses                 => A: alive
        """)
    assert not is_classic(mixed)
    mixed.tell("""
        wait 9000
        A pulses                     => A: REBALANCE_IN_PROGRESS
    """)
    assert is_classic(mixed)


def test_where_downgrades_are_off_the_group_stays_a_consumer_group():
    story = Story(may_downgrade=False)
    story.tell(
        MIXED
        + """
        B leaves                     => B: left
        A pulses                     => A: REBALANCE_IN_PROGRESS
        A enters t owns=t:0,1        => A: generation 3
        A syncs                      => A: given t:0,1,2,3
    """
    )
    assert not is_classic(story)


def test_a_static_member_that_comes_back_in_the_classic_protocol_has_its_place_in_a_classic_group():
    story = Story()
    story.tell("""
        topic t 2
        A joins t instance=a         => A: epoch 1 has t:0,1
        A leaves for-a-while instance=a => A: left
        B enters t instance=a        => B: generation 1
        B syncs                      => B: given t:0,1
        B pulses                     => B: alive
    """)
    assert is_classic(story)


def test_a_static_member_that_comes_back_in_the_new_protocol_has_its_place_in_a_consumer_group():
    story = Story()
    story.tell("""
        topic t 2
        A enters t instance=a        => A: generation 1
        A syncs A=t:0,1              => A: given t:0,1
        B joins t instance=a         => B: epoch 1 has t:0,1
        A pulses instance=a          => A: FENCED_INSTANCE_ID
    """)
    assert not is_classic(story)


def test_a_member_that_comes_back_in_the_other_protocol_under_the_same_id_is_one_of_that(mixed):
    mixed.tell("""
        A joins t                    => A: epoch 2 has t:0,1
        A beats                      => A: epoch 2
        A pulses                     => A: UNKNOWN_MEMBER_ID
        wait 44000
        A beats                      => A: epoch 2
    """)
