"""Consumer groups, told as stories: support/consumer_story.py explains how they are written."""

from __future__ import annotations

import pytest

from support.consumer_story import Story

TWO = """
    topic t 4
    A joins t                    => A: epoch 1 has t:0,1,2,3
    B joins t                    => B: epoch 2 has nothing, again in 1000
    A beats                      => A: epoch 1 has t:0,1
    A beats owns=t:0,1           => A: epoch 2
    B beats                      => B: epoch 2 has t:2,3
"""


@pytest.fixture
def group() -> Story:
    return Story()


@pytest.fixture
def two() -> Story:
    story = Story()
    story.tell(TWO)
    return story


# -- members come and go


def test_a_partition_is_given_to_another_only_when_its_owner_says_that_it_has_given_it_up(group):
    group.tell("""
        topic t 4
        A joins t                    => A: epoch 1 has t:0,1,2,3
        B joins t                    => B: epoch 2 has nothing, again in 1000
        B beats                      => B: epoch 2, again in 1000
        A beats owns=t:0,1,2,3       => A: epoch 1 has t:0,1
        B beats                      => B: epoch 2, again in 1000
        A beats owns=t:0,1,2         => A: epoch 1
        B beats                      => B: epoch 2, again in 1000
        A beats                      => A: epoch 1
        A beats owns=t:0,1           => A: epoch 2
        B beats                      => B: epoch 2 has t:2,3
        A beats                      => A: epoch 2
    """)
    assert group.group.state_name == "Stable"


def test_states_follow_what_the_group_does():
    story = Story(assignment_interval_ms=1000)
    story.tell("""
        topic t 2
        A joins t                    => A: epoch 1 has t:0,1
    """)
    assert story.group.state_name == "Stable"
    story.tell("B joins t            => B: epoch 1 has nothing, again in 1000")
    assert story.group.state_name == "Assigning"
    story.tell("""
        wait 1000
        B beats                      => B: epoch 2, again in 1000
    """)
    assert story.group.state_name == "Reconciling"
    story.tell("""
        A beats                      => A: epoch 1 has t:0
        A beats owns=t:0             => A: epoch 2
        B beats                      => B: epoch 2 has t:1
    """)
    assert story.group.state_name == "Stable"
    story.tell("""
        A leaves                     => A: left
        B leaves                     => B: left
    """)
    assert story.group.state_name == "Empty"


def test_many_who_join_at_once_are_assigned_once_and_told_when_to_come_for_it():
    story = Story(assignment_interval_ms=1000)
    story.tell("""
        topic t 3
        A joins t                    => A: epoch 1 has t:0,1,2
        wait 100
        B joins t                    => B: epoch 1 has nothing, again in 900
        wait 400
        C joins t                    => C: epoch 1 has nothing, again in 500
        A beats                      => A: epoch 1, again in 500
        wait 500
        C beats                      => C: epoch 3, again in 1000
        B beats                      => B: epoch 3, again in 1000
        A beats                      => A: epoch 1 has t:0
        A beats owns=t:0             => A: epoch 3
        B beats                      => B: epoch 3 has t:1
        C beats                      => C: epoch 3 has t:2
    """)


def test_a_clock_that_is_set_back_does_not_keep_a_group_from_being_assigned():
    story = Story(assignment_interval_ms=1000)
    story.tell("""
        topic t 2
        A joins t                    => A: epoch 1 has t:0,1
    """)
    story.now -= 10_000
    story.tell("B joins t            => B: epoch 2 has nothing, again in 1000")


def test_who_leaves_makes_room_at_once(two):
    two.tell("""
        A leaves                     => A: left
        B beats                      => B: epoch 3 has t:0,1,2,3
        A beats epoch=2              => A: UNKNOWN_MEMBER_ID
        A leaves                     => A: UNKNOWN_MEMBER_ID
    """)


def test_a_silent_member_is_out_when_its_session_ends(two):
    two.tell("""
        wait 30000
        B beats                      => B: epoch 2
        wait 14999
        A beats                      => A: epoch 2
        wait 30001
        B beats                      => B: UNKNOWN_MEMBER_ID
        A beats                      => A: epoch 3 has t:0,1,2,3
    """)


def test_a_member_that_does_not_give_up_its_partitions_in_time_is_out(group):
    group.tell("""
        topic t 2
        A joins t timeout=20000      => A: epoch 1 has t:0,1
        B joins t                    => B: epoch 2 has nothing, again in 1000
        A beats                      => A: epoch 1 has t:0
        wait 19999
        A beats                      => A: epoch 1
        B beats                      => B: epoch 2, again in 1000
        wait 1
        A beats                      => A: UNKNOWN_MEMBER_ID
        B beats                      => B: epoch 3 has t:0,1
    """)


def test_a_member_that_gave_up_its_partitions_is_not_timed_any_more(group):
    group.tell("""
        topic t 2
        A joins t timeout=20000      => A: epoch 1 has t:0,1
        B joins t                    => B: epoch 2 has nothing, again in 1000
        A beats                      => A: epoch 1 has t:0
        A beats owns=t:0             => A: epoch 2
        wait 44000
        A beats                      => A: epoch 2
    """)


def test_a_member_that_reads_other_topics_gives_up_those_it_does_not_read(group):
    group.tell("""
        topic t 2
        topic u 2
        A joins t                    => A: epoch 1 has t:0,1
        B joins t,u                  => B: epoch 2 has u:0,1
        A beats topics=u owns=t:0,1  => A: epoch 1 has nothing
        B beats                      => B: epoch 2 has nothing
        A beats owns=-               => A: epoch 3, again in 1000
        B beats owns=-               => B: epoch 3 has t:0,1
        A beats                      => A: epoch 3 has u:0,1
    """)


def test_a_new_target_while_a_member_still_revokes_is_taken_up_when_it_has(group):
    group.tell("""
        topic t 6
        A joins t                    => A: epoch 1 has t:0,1,2,3,4,5
        B joins t                    => B: epoch 2 has nothing, again in 1000
        A beats                      => A: epoch 1 has t:0,1,2
        C joins t                    => C: epoch 3 has nothing, again in 1000
        A beats owns=t:0,1,2,3       => A: epoch 1
        A beats owns=t:0,1,2         => A: epoch 1 has t:0,1
        A beats owns=t:0,1           => A: epoch 3
        C beats                      => C: epoch 3 has t:2,5
        B beats                      => B: epoch 3 has t:3,4
    """)


# -- epochs


def test_another_epoch_than_its_own_fences_a_member(two):
    two.tell("""
        A beats epoch=1              => A: FENCED_MEMBER_EPOCH
        A beats epoch=3              => A: FENCED_MEMBER_EPOCH
        A beats id=nobody            => A: UNKNOWN_MEMBER_ID
        A beats                      => A: epoch 2
    """)


def test_the_previous_epoch_is_a_retry_if_the_member_has_nothing_that_is_not_its_own(two):
    two.tell("""
        A beats epoch=1 owns=t:0,1   => A: epoch 2
        A beats epoch=1 owns=t:0     => A: epoch 2
        A beats epoch=1 owns=t:0,2   => A: FENCED_MEMBER_EPOCH
        A beats epoch=1              => A: FENCED_MEMBER_EPOCH
        A beats epoch=0 owns=-       => A: epoch 2 has t:0,1
    """)


def test_a_member_that_was_fenced_joins_again_with_epoch_0_and_the_same_id(two):
    two.tell("""
        A joins t                    => A: epoch 2 has t:0,1
        A beats                      => A: epoch 2
        A beats full t owns=t:0,1    => A: epoch 2 has t:0,1
    """)


def test_an_epoch_without_a_group_is_told_so(group):
    group.tell("""
        A beats epoch=1              => A: GROUP_ID_NOT_FOUND
        A leaves                     => A: GROUP_ID_NOT_FOUND
    """)


def test_a_full_group_takes_nobody_and_members_go_on():
    story = Story(max_size=1)
    story.tell("""
        topic t 1
        A joins t                    => A: epoch 1 has t:0
        B joins t                    => B: GROUP_MAX_SIZE_REACHED
        A joins t                    => A: epoch 1 has t:0
    """)


# -- static members


def test_a_static_member_that_leaves_for_a_while_finds_its_partitions_again(group):
    group.tell("""
        topic t 4
        A joins t instance=a         => A: epoch 1 has t:0,1,2,3
        B joins t instance=b         => B: epoch 2 has nothing, again in 1000
        A beats owns=t:0,1           => A: epoch 2 has t:0,1
        B beats                      => B: epoch 2 has t:2,3
        B leaves for-a-while instance=b => B: left
        A beats                      => A: epoch 2
        C joins t instance=b         => C: epoch 2 has t:2,3
        A beats                      => A: epoch 2
        B beats epoch=2 instance=b   => B: FENCED_INSTANCE_ID
        B beats epoch=2              => B: UNKNOWN_MEMBER_ID
    """)
    assert list(group.group.static) == ["a", "b"]


def test_a_static_member_that_stays_away_is_out_when_its_session_ends(group):
    group.tell("""
        topic t 2
        A joins t instance=a         => A: epoch 1 has t:0,1
        A leaves for-a-while instance=a => A: left
        wait 44999
    """)
    assert group.group.members
    group.tell("wait 1")
    assert not group.group.members
    group.tell("A beats epoch=1 instance=a => A: UNKNOWN_MEMBER_ID")


def test_an_instance_id_that_is_in_use_is_not_given_away(group):
    group.tell("""
        topic t 2
        A joins t instance=a         => A: epoch 1 has t:0,1
        B joins t instance=a         => B: UNRELEASED_INSTANCE_ID
        A beats instance=a           => A: epoch 1
        A joins t instance=a         => A: epoch 1 has t:0,1
        A beats instance=x           => A: UNKNOWN_MEMBER_ID
        A leaves instance=x          => A: UNKNOWN_MEMBER_ID
        A leaves instance=a          => A: left
        B joins t instance=a         => B: epoch 3 has t:0,1
    """)


def test_a_static_member_that_comes_back_to_read_other_topics_raises_the_epoch(group):
    group.tell("""
        topic t 2
        topic u 1
        A joins t instance=a         => A: epoch 1 has t:0,1
        A leaves for-a-while instance=a => A: left
        B joins u instance=a         => B: epoch 2 has u:0
    """)


# -- topics and patterns


def test_more_partitions_are_shared_out(two):
    two.tell("""
        topic t 6
        A beats                      => A: epoch 3 has t:0,1,4
        B beats                      => B: epoch 3 has t:2,3,5
    """)


def test_a_topic_that_is_gone_is_given_up_and_one_that_comes_is_given_out(group):
    group.tell("""
        topic t 2
        A joins t,u                  => A: epoch 1 has t:0,1
        topic u 1
        A beats                      => A: epoch 2 has t:0,1/u:0
        topic t gone
        A beats                      => A: epoch 2 has u:0
        A beats owns=u:0             => A: epoch 3
    """)


def test_topics_that_nobody_reads_do_not_matter(two):
    two.tell("""
        topic x 5
        A beats                      => A: epoch 2
    """)


def test_a_pattern_reads_the_topics_that_fit_as_they_come_and_go(group):
    group.tell("""
        topic orders.de 1
        topic xorders.at 1
        A joins regex=orders\\..*    => A: epoch 1 has orders.de:0
        topic orders.at 2
        A beats                      => A: epoch 2 has orders.at:0,1/orders.de:0
        topic orders.at gone
        A beats                      => A: epoch 2 has orders.de:0
        A beats owns=orders.de:0     => A: epoch 3
        restart
        A beats                      => A: epoch 3
        topic orders.ch 1
        A beats                      => A: epoch 4 has orders.ch:0/orders.de:0
    """)
    assert group.group.is_subscribed("orders.ch")
    assert not group.group.is_subscribed("orders.at")


def test_names_and_a_pattern_go_together_and_a_pattern_may_be_changed_or_dropped(group):
    group.tell("""
        topic a1 1
        topic b1 1
        topic c1 1
        A joins c1 regex=a.          => A: epoch 1 has a1:0/c1:0
        A beats regex=b. owns=a1:0/c1:0 => A: epoch 1 has c1:0
        A beats owns=c1:0            => A: epoch 2 has b1:0/c1:0
        A beats regex= owns=b1:0/c1:0 => A: epoch 2 has c1:0
        A beats owns=c1:0            => A: epoch 3
    """)
    assert not [key for key in group.stored if key[:2] == b"\0\x10"]


def test_a_pattern_is_kept_while_one_member_has_it(group):
    group.tell("""
        topic a 2
        A joins regex=a              => A: epoch 1 has a:0,1
        B joins regex=a              => B: epoch 2 has nothing, again in 1000
        A leaves                     => A: left
        B beats                      => B: epoch 3 has a:0,1
    """)
    assert [key for key in group.stored if key[:2] == b"\0\x10"]
    group.tell("B leaves             => B: left")
    assert not [key for key in group.stored if key[:2] == b"\0\x10"]


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", "(a)\\1", "[z-a]"])
def test_what_is_no_pattern_is_refused_and_changes_nothing(two, pattern):
    before = dict(two.stored)
    two.tell(f"""
        A beats regex={pattern}      => A: INVALID_REGULAR_EXPRESSION
        C joins t regex={pattern}    => C: INVALID_REGULAR_EXPRESSION
        A beats                      => A: epoch 2
    """)
    assert two.stored == before


def test_a_hostile_pattern_holds_nobody_up(group):
    group.do(f"topic {'a' * 240} 1")
    group.tell("A joins regex=(a+)+b => A: epoch 1 has nothing")


# -- assignors


def test_the_assignor_that_most_members_want_assigns(group):
    group.tell("""
        topic t 4
        topic u 4
        A joins t,u assignor=range   => A: epoch 1 has t:0,1,2,3/u:0,1,2,3
        B joins t,u assignor=range   => B: epoch 2 has nothing, again in 1000
        A beats                      => A: epoch 1 has t:0,1/u:0,1
    """)
    assert group.group.assignor(("uniform", "range")) == "range"
    assert group.group.assignor(("uniform",)) == "uniform"


# -- offsets


def test_commits_need_the_members_epoch_or_partitions_that_it_has_had_since(two):
    two.tell("""
        A commits of=t:0             => A: committed
        A commits epoch=1 of=t:0     => A: committed
        B commits epoch=1 of=t:2     => B: STALE_MEMBER_EPOCH
        A commits epoch=1 of=t:2     => A: STALE_MEMBER_EPOCH
        A commits epoch=1 of=x:0     => A: STALE_MEMBER_EPOCH
        A commits epoch=1            => A: STALE_MEMBER_EPOCH
        A commits epoch=3 of=t:0     => A: STALE_MEMBER_EPOCH
        A commits epoch=-1           => A: STALE_MEMBER_EPOCH
        A commits v=8                => A: UNSUPPORTED_VERSION
        X commits epoch=2            => X: UNKNOWN_MEMBER_ID
        X commits id= epoch=-1       => X: UNKNOWN_MEMBER_ID
        X commits txn id= epoch=-1   => X: committed
        A commits txn v=3            => A: committed
        A leaves                     => A: left
        B leaves                     => B: left
        X commits id= epoch=-1       => X: committed
    """)


def test_offsets_are_told_to_members_with_their_epoch_and_to_who_is_none(two):
    two.tell("""
        A fetches                    => A: fetched
        A fetches epoch=1            => A: STALE_MEMBER_EPOCH
        X fetches epoch=2            => X: UNKNOWN_MEMBER_ID
        X fetches id= epoch=-1       => X: fetched
    """)


# -- what is stored


def test_a_group_that_is_read_back_goes_on_where_it_was(two):
    before = dict(two.stored)
    two.tell("""
        restart
        A beats                      => A: epoch 2
        B beats owns=t:2,3           => B: epoch 2
    """)
    assert two.stored == before


def test_a_group_that_is_read_back_in_the_middle_of_a_rebalance_finishes_it(group):
    group.tell("""
        topic t 2
        A joins t timeout=20000      => A: epoch 1 has t:0,1
        B joins t                    => B: epoch 2 has nothing, again in 1000
        A beats                      => A: epoch 1 has t:0
        restart
        B beats                      => B: epoch 2, again in 1000
        A beats owns=t:0             => A: epoch 2
        restart
        B beats                      => B: epoch 2 has t:1
    """)


def test_a_member_that_revokes_is_timed_anew_when_its_group_is_read_back(group):
    group.tell("""
        topic t 2
        A joins t timeout=20000      => A: epoch 1 has t:0,1
        B joins t                    => B: epoch 2 has nothing, again in 1000
        A beats                      => A: epoch 1 has t:0
        restart
        wait 20000
        A beats                      => A: UNKNOWN_MEMBER_ID
    """)


def test_sessions_begin_anew_when_a_group_is_read_back(two):
    two.tell("""
        wait 40000
        restart
        wait 44999
        A beats                      => A: epoch 2
        wait 1
        B beats                      => B: UNKNOWN_MEMBER_ID
    """)


def test_topics_that_changed_while_nobody_looked_are_seen_when_a_group_is_read_back(two):
    group = two.groups.pop("g")
    two.do("topic t 5")
    two.groups["g"] = group
    two.tell("""
        restart
        A beats                      => A: epoch 3 has t:0,1,4
    """)


def test_a_group_without_members_is_all_gone_when_it_is_deleted(two):
    two.tell("""
        A leaves                     => A: left
        B leaves                     => B: left
    """)
    for write in two.group.tombstones():
        two.stored.pop(write.key, None)
    assert two.stored == {}


def test_what_older_kafkas_wrote_of_the_topics_is_taken_off(two):
    key = b"\0\x04\0\x01g"
    two.stored[key] = bytes.fromhex("00000100")
    two.do("restart")
    assert two.group.has_topics_record
    two.tell("A leaves               => A: left")
    assert key not in two.stored
