"""Classic groups, told as stories: support/group_story.py explains how they are written."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from support.group_story import GroupStory

TWO_MEMBERS = """
    A joins                  => A: MEMBER_ID_REQUIRED
    A joins
    B joins                  => B: MEMBER_ID_REQUIRED
    B joins
    wait 6000                => A: generation 1, leads A B; B: generation 1, follows A
    B syncs
    A syncs A=p0 B=p1        => stored Stable 1 A B; A: given p0; B: given p1
"""


@pytest.fixture
def group() -> GroupStory:
    return GroupStory()


@pytest.fixture
def two() -> GroupStory:
    story = GroupStory()
    story.tell(TWO_MEMBERS)
    return story


def test_the_first_member_is_told_its_id_waits_for_others_leads_and_gets_what_it_assigns(group):
    group.tell("""
        A joins              => A: MEMBER_ID_REQUIRED
        A joins
        wait 2999
        wait 1               => A: generation 1, leads A
        A beats              => A: alive
        A syncs A=p0,p1      => stored Stable 1 A; A: given p0,p1
        A beats              => A: alive
    """)


def test_old_clients_are_not_asked_to_join_twice(group):
    group.tell("""
        A joins v=3
        wait 3000            => A: generation 1, leads A
    """)


def test_the_first_rebalance_waits_longer_while_members_keep_coming_but_not_longer_than_its_timeout(group):
    group.tell("""
        A joins v=3 rebalance=7000
        wait 2000
        B joins v=3 rebalance=7000
        wait 1000
        wait 2000
        C joins v=3 rebalance=7000
        wait 1000
        wait 999
        wait 1               => A: generation 1, leads A B C; B: generation 1, follows A; C: generation 1, follows A
    """)


def test_without_an_initial_delay_the_first_rebalance_is_over_at_once():
    GroupStory(delay=0).tell("A joins v=3  => A: generation 1, leads A")


def test_a_new_member_makes_all_join_again_and_the_leader_stays(two):
    two.tell("""
        C joins              => C: MEMBER_ID_REQUIRED
        C joins
        A beats              => A: REBALANCE_IN_PROGRESS
        B commits            => B: committed
        B joins
        A joins              => A: generation 2, leads A B C; B: generation 2, follows A; C: generation 2, follows A
        C syncs
        B commits            => B: REBALANCE_IN_PROGRESS
        A syncs A=p0 B=p1    => stored Stable 2 A B C; A: given p0; C: given
        B syncs              => B: given p1
        C beats              => C: alive
    """)


def test_who_leaves_is_not_waited_for_and_a_follower_takes_the_lead(two):
    two.tell("""
        A leaves             => A: left
        B beats              => B: REBALANCE_IN_PROGRESS
        B joins              => B: generation 2, leads B
        B syncs B=p0,p1      => stored Stable 2 B; B: given p0,p1
        A beats              => A: UNKNOWN_MEMBER_ID
    """)


def test_the_last_one_to_leave_leaves_an_empty_group(two):
    two.tell("""
        A leaves             => A: left
        B leaves             => B: left; stored Empty 2
        A commits            => A: UNKNOWN_MEMBER_ID
        X commits generation=-1   => X: committed
    """)


def test_a_member_that_is_silent_for_its_session_is_out(two):
    two.tell("""
        wait 9000
        A beats              => A: alive
        wait 1500
        A beats              => A: REBALANCE_IN_PROGRESS
        A joins              => A: generation 2, leads A
        B beats              => B: UNKNOWN_MEMBER_ID
    """)


def test_commits_keep_a_session_alive_as_heartbeats_do(two):
    two.tell("""
        wait 9000
        A commits            => A: committed
        B beats              => B: alive
        wait 9000
        A beats              => A: alive
        B beats              => B: alive
    """)


def test_who_does_not_join_a_rebalance_in_time_is_out_though_it_sends_heartbeats():
    story = GroupStory(delay=0)
    story.tell("""
        A joins v=3 rebalance=15000   => A: generation 1, leads A
        A syncs A=x          => stored Stable 1 A; A: given x
        B joins v=3 rebalance=15000
        wait 8000
        A beats              => A: REBALANCE_IN_PROGRESS
        wait 7000            => B: generation 2, leads B
        A beats              => A: UNKNOWN_MEMBER_ID
    """)


def test_a_join_that_waits_keeps_its_member_alive(two):
    two.tell("""
        C joins v=3
        B joins
        wait 9000
        A beats              => A: REBALANCE_IN_PROGRESS
        wait 9000
        A beats              => A: REBALANCE_IN_PROGRESS
        A joins              => A: generation 2, leads A B C; B: generation 2, follows A; C: generation 2, follows A
        wait 9999
        wait 1               => stored Empty 3
    """)


def test_a_leader_that_never_assigns_is_out_and_the_others_begin_anew():
    story = GroupStory(delay=0)
    story.tell("""
        A joins v=3 rebalance=20000  => A: generation 1, leads A
        B joins v=3 rebalance=20000
        A joins rebalance=20000      => A: generation 2, leads A B; B: generation 2, follows A
        B syncs
        wait 9000
        A beats              => A: alive
        wait 9000
        A beats              => A: alive
        wait 2000            => B: REBALANCE_IN_PROGRESS
        B joins              => B: generation 3, leads B
    """)


def test_a_leader_that_dies_before_it_assigns_sets_its_followers_free(two):
    two.tell("""
        A joins
        B joins              => A: generation 2, leads A B; B: generation 2, follows A
        B syncs
        wait 10000           => B: REBALANCE_IN_PROGRESS
        B joins              => B: generation 3, leads B
    """)


def test_a_new_member_that_comes_while_the_leader_assigns_makes_all_join_again(two):
    two.tell("""
        B joins protocols=range metadata=more
        A joins              => A: generation 2, leads A B; B: generation 2, follows A
        B syncs
        C joins v=3          => B: REBALANCE_IN_PROGRESS
        A syncs A=x          => A: REBALANCE_IN_PROGRESS
    """)


def test_a_member_whose_sync_failed_must_be_heard_of_again(two):
    two.tell("""
        A joins
        B joins              => A: generation 2, leads A B; B: generation 2, follows A
        B syncs
        C joins v=3          => B: REBALANCE_IN_PROGRESS
        wait 9999
        wait 1               => C: generation 3, leads C
    """)


def test_a_member_that_joins_and_never_syncs_is_out_after_the_rebalance_timeout_and_the_others_stay():
    story = GroupStory(delay=0)
    story.tell("""
        A joins v=3 rebalance=15000   => A: generation 1, leads A
        B joins v=3 rebalance=15000
        A joins rebalance=15000       => A: generation 2, leads A B; B: generation 2, follows A
        A syncs A=x          => stored Stable 2 A B; A: given x
        wait 8000
        A beats              => A: alive
        B beats              => B: alive
        wait 7000
        A beats              => A: REBALANCE_IN_PROGRESS
        B beats              => B: UNKNOWN_MEMBER_ID
        A joins              => A: generation 3, leads A
    """)


def test_a_group_in_which_all_have_synced_stays_stable(two):
    for _ in range(20):
        two.tell("""
            wait 9000
            A beats          => A: alive
            B beats          => B: alive
        """)


# -- who may say what


def test_a_follower_that_joins_again_unchanged_gets_its_generation_and_the_leader_begins_a_rebalance(two):
    two.tell("""
        B joins              => B: generation 1, follows A
        A joins
        B beats              => B: REBALANCE_IN_PROGRESS
        B joins              => A: generation 2, leads A B; B: generation 2, follows A
        B joins              => B: generation 2, follows A
        A joins              => A: generation 2, leads A B
    """)


def test_a_follower_with_another_subscription_begins_a_rebalance(two):
    two.tell("""
        B joins metadata=other
        A beats              => A: REBALANCE_IN_PROGRESS
    """)


def test_an_id_that_nobody_has_is_unknown_to_all_requests(two):
    two.tell("""
        X joins id=?         => X: UNKNOWN_MEMBER_ID
        X syncs id=?         => X: UNKNOWN_MEMBER_ID
        X beats id=?         => X: UNKNOWN_MEMBER_ID
        X leaves id=?        => X: UNKNOWN_MEMBER_ID
        X leaves id=? v=2    => X: UNKNOWN_MEMBER_ID
        X commits id=?       => X: UNKNOWN_MEMBER_ID
        X commits generation=-1    => X: UNKNOWN_MEMBER_ID
        X commits generation=-1 txn=  => X: committed
    """)


def test_another_generation_is_illegal(two):
    for generation in (-1, 0, 2):
        two.tell(f"""
            A beats generation={generation}    => A: ILLEGAL_GENERATION
            A syncs generation={generation}    => A: ILLEGAL_GENERATION
            A commits generation={generation}  => A: ILLEGAL_GENERATION
        """)


def test_a_sync_during_joining_is_told_of_the_rebalance(two):
    two.tell("""
        A joins
        B syncs              => B: REBALANCE_IN_PROGRESS
    """)


def test_a_sync_with_another_protocol_is_inconsistent(two):
    two.tell("""
        A syncs type=connect               => A: INCONSISTENT_GROUP_PROTOCOL
        A syncs protocol=sticky            => A: INCONSISTENT_GROUP_PROTOCOL
        A syncs type=consumer protocol=range  => A: given p0
    """)


def test_protocols_that_not_all_know_another_type_and_none_at_all_are_inconsistent(two):
    two.tell("""
        C joins protocols=sticky           => C: INCONSISTENT_GROUP_PROTOCOL
        C joins type=connect               => C: INCONSISTENT_GROUP_PROTOCOL
        C joins protocols=                 => C: INCONSISTENT_GROUP_PROTOCOL
        B joins protocols=sticky           => B: INCONSISTENT_GROUP_PROTOCOL
    """)
    GroupStory().tell("""
        A joins protocols=                 => A: INCONSISTENT_GROUP_PROTOCOL
        A joins type=                      => A: INCONSISTENT_GROUP_PROTOCOL
    """)


def test_the_protocol_is_one_that_all_know_and_most_prefer():
    story = GroupStory()
    story.tell("""
        A joins v=3 protocols=range,sticky,mine
        B joins v=3 protocols=sticky,range
        C joins v=3 protocols=sticky,range
        wait 6000            => A: generation 1, leads A B C; B: generation 1, follows A; C: generation 1, follows A
    """)
    assert story.group.protocol == "sticky"


def test_a_dead_group_has_no_coordinator(two):
    assert two.group.unloaded(ErrorCode.NOT_COORDINATOR) == []
    two.tell("""
        A joins              => A: COORDINATOR_NOT_AVAILABLE
        A syncs              => A: COORDINATOR_NOT_AVAILABLE
        A beats              => A: COORDINATOR_NOT_AVAILABLE
        A leaves             => A: COORDINATOR_NOT_AVAILABLE
        A commits            => A: COORDINATOR_NOT_AVAILABLE
    """)


def test_those_who_wait_are_told_when_the_group_is_no_longer_served(two):
    two.tell("A joins")
    (reply,) = two.group.unloaded(ErrorCode.NOT_COORDINATOR)
    assert reply.message.error_code == ErrorCode.NOT_COORDINATOR


# -- room


def test_a_full_group_turns_new_members_away_and_keeps_those_it_has():
    story = GroupStory(size=2)
    story.tell(TWO_MEMBERS)
    story.tell("""
        C joins              => C: GROUP_MAX_SIZE_REACHED
        A joins
        B joins              => A: generation 2, leads A B; B: generation 2, follows A
    """)


def test_a_member_that_finds_its_place_taken_in_a_rebalance_is_turned_away():
    story = GroupStory(size=2, delay=0)
    story.tell("""
        A joins v=3          => A: generation 1, leads A
        A syncs A=x          => stored Stable 1 A; A: given x
        B joins v=3
        C joins v=3
        A joins              => A: GROUP_MAX_SIZE_REACHED; B: generation 2, leads B C; C: generation 2, follows B
    """)


def test_a_record_that_is_too_large_for_the_log_fails_the_sync_and_begins_anew():
    story = GroupStory(delay=0, largest=300)
    story.tell(f"""
        A joins v=3          => A: generation 1, leads A
        A syncs A={"x" * 400}    => A: UNKNOWN_SERVER_ERROR
        A beats              => A: REBALANCE_IN_PROGRESS
        A joins              => A: generation 2, leads A
        A syncs A=x          => stored Stable 2 A; A: given x
    """)


# -- pending members


def test_a_rebalance_waits_for_a_member_that_was_given_an_id_and_no_longer_than_its_session(two):
    two.tell("""
        C joins session=6000 => C: MEMBER_ID_REQUIRED
        A joins
        B joins
        wait 5999
        wait 1               => A: generation 2, leads A B; B: generation 2, follows A
        C joins              => C: UNKNOWN_MEMBER_ID
    """)


def test_a_pending_member_that_leaves_is_not_waited_for(two):
    two.tell("""
        C joins              => C: MEMBER_ID_REQUIRED
        A joins
        B joins
        C leaves             => C: left; A: generation 2, leads A B; B: generation 2, follows A
    """)


def test_an_id_that_was_given_to_a_dynamic_member_is_none_for_a_static_one(two):
    two.tell("""
        C joins              => C: MEMBER_ID_REQUIRED
        C joins instance=c   => C: UNKNOWN_MEMBER_ID
    """)


# -- requests that come twice


def test_a_join_that_comes_again_replaces_the_one_that_waits(two):
    two.tell("""
        A joins
        A joins              => A: REBALANCE_IN_PROGRESS
        B joins              => A: generation 2, leads A B; B: generation 2, follows A
        B syncs
        B syncs              => B: REBALANCE_IN_PROGRESS
        A syncs B=x          => stored Stable 2 A B; A: given; B: given x
    """)


def test_a_new_member_that_never_learns_its_id_is_given_up_after_five_minutes():
    story = GroupStory(delay=0)
    story.tell("""
        A joins v=3 rebalance=900000   => A: generation 1, leads A
        A syncs A=x          => stored Stable 1 A; A: given x
        B joins v=3 rebalance=900000
    """)
    for _ in range(30):
        story.tell("""
            wait 9990
            A beats          => A: REBALANCE_IN_PROGRESS
        """)
    story.tell("""
        wait 300             => B: UNKNOWN_MEMBER_ID
        A joins              => A: generation 2, leads A
    """)


# -- static members


@pytest.fixture
def static() -> GroupStory:
    story = GroupStory()
    story.tell("""
        A joins instance=a
        B joins instance=b
        wait 6000            => A: generation 1, leads A B; B: generation 1, follows A
        B syncs instance=b
        A syncs instance=a A=p0 B=p1   => stored Stable 1 A B; A: given p0; B: given p1
    """)
    return story


def test_a_static_member_that_comes_back_takes_its_place_without_a_rebalance(static):
    static.ids["oldB"] = static.ids["B"]
    static.tell("""
        B joins id= instance=b         => stored Stable 1 A B; B: generation 1, follows A
        B syncs instance=b             => B: given p1
        A beats instance=a             => A: alive
        X beats id=oldB generation=1 instance=b    => X: FENCED_INSTANCE_ID
        X syncs id=oldB generation=1 instance=b    => X: FENCED_INSTANCE_ID
        X commits id=oldB generation=1 instance=b  => X: FENCED_INSTANCE_ID
        X joins id=oldB instance=b     => X: FENCED_INSTANCE_ID
        X leaves id=oldB instance=b    => X: FENCED_INSTANCE_ID
        X beats id=oldB generation=1   => X: UNKNOWN_MEMBER_ID
        B beats instance=b             => B: alive
    """)


def test_a_static_leader_that_comes_back_is_told_to_skip_the_assignment(static):
    static.tell("""
        A joins id= instance=a         => stored Stable 1 A B; A: generation 1, leads A B, skips
        A syncs instance=a             => A: given p0
        B beats instance=b             => B: alive
    """)


def test_an_older_static_leader_that_comes_back_is_told_that_its_former_id_leads(static):
    before = static.ids["A"]
    static.names[before] = "former·A"
    static.tell("""
        A joins id= instance=a v=8     => stored Stable 1 A B; A: generation 1, follows former·A
        A syncs instance=a             => A: given p0
        B beats instance=b             => B: alive
    """)


def test_a_static_member_that_comes_back_with_another_protocol_begins_a_rebalance():
    story = GroupStory()
    story.tell("""
        A joins instance=a protocols=range,sticky
        B joins instance=b protocols=range,sticky
        wait 6000            => A: generation 1, leads A B; B: generation 1, follows A
        A syncs A=x B=y      => stored Stable 1 A B; A: given x
        B syncs              => B: given y
        B joins id= instance=b protocols=sticky
        A beats              => A: REBALANCE_IN_PROGRESS
        A joins protocols=range,sticky instance=a  => A: generation 2, leads A B; B: generation 2, follows A
    """)
    assert story.group.protocol == "sticky"


def test_a_static_member_that_comes_back_while_it_waits_fences_its_former_self(static):
    static.tell("""
        C joins v=4 id=      => C: MEMBER_ID_REQUIRED
        C joins
        B joins instance=b
        B joins id= instance=b         => B: FENCED_INSTANCE_ID
        A joins instance=a   => A: generation 2, leads A B C; B: generation 2, follows A; C: generation 2, follows A
        B syncs
        B joins id= instance=b         => B: FENCED_INSTANCE_ID
        A beats              => A: REBALANCE_IN_PROGRESS
    """)


def test_a_static_member_that_comes_back_before_it_has_synced_must_sync_under_its_new_id():
    story = GroupStory(delay=0)
    story.tell("""
        A joins instance=a rebalance=15000 session=60000   => A: generation 1, leads A
        B joins instance=b rebalance=15000 session=60000
        A joins instance=a rebalance=15000 session=60000   => A: generation 2, leads A B; B: generation 2, follows A
        A syncs A=x B=y      => stored Stable 2 A B; A: given x
        B joins id= instance=b rebalance=15000 session=60000  => stored Stable 2 A B; B: generation 2, follows A
        wait 14999
        B beats              => B: alive
        wait 1
        B beats              => B: UNKNOWN_MEMBER_ID
        A beats              => A: REBALANCE_IN_PROGRESS
    """)


def test_static_members_that_do_not_join_stay_until_their_session_ends():
    story = GroupStory(delay=0)
    story.tell("""
        A joins instance=a rebalance=5000 session=60000   => A: generation 1, leads A
        A syncs A=x          => stored Stable 1 A; A: given x
        B joins instance=b rebalance=5000 session=60000
        wait 5000            => B: generation 2, leads A B
        A beats generation=2 => A: alive
        B syncs A=x B=y      => stored Stable 2 A B; B: given y
        A joins instance=a   => A: generation 2, follows B
    """)


def test_when_no_static_member_joins_their_sessions_decide():
    story = GroupStory(delay=0)
    story.tell("""
        A joins instance=a rebalance=5000 session=20000   => A: generation 1, leads A
        A syncs A=x          => stored Stable 1 A; A: given x
        B joins v=3 rebalance=5000
        wait 5000            => B: generation 2, leads A B
        B leaves             => B: left
        wait 19999
        wait 1               => stored Empty 3
    """)


def test_an_administrator_removes_a_static_member_by_its_instance_id(static):
    static.tell("""
        X leaves id= instance=b        => X: left
        X leaves id= instance=b        => X: UNKNOWN_MEMBER_ID
        A beats              => A: REBALANCE_IN_PROGRESS
        A joins instance=a   => A: generation 2, leads A
    """)


def test_an_instance_that_is_not_known_is_an_unknown_member(static):
    static.tell("""
        A beats instance=zz  => A: UNKNOWN_MEMBER_ID
        A joins instance=zz  => A: UNKNOWN_MEMBER_ID
        A commits instance=zz  => A: UNKNOWN_MEMBER_ID
    """)


# -- restarts


def test_after_a_restart_a_stable_group_goes_on_and_sessions_begin_anew(two):
    two.tell("wait 9000")
    two.restart()
    two.tell("""
        wait 9000
        A beats              => A: alive
        B syncs              => B: given p1
        wait 2000
        B joins              => B: generation 1, follows A
        C joins v=3
        B joins
        A joins              => A: generation 2, leads A B C; B: generation 2, follows A; C: generation 2, follows A
    """)


def test_a_broker_killed_in_a_rebalance_comes_back_with_the_last_generation(two):
    two.tell("""
        C joins v=3
        A joins
        B joins              => A: generation 2, leads A B C; B: generation 2, follows A; C: generation 2, follows A
    """)
    two.restart()
    two.tell("""
        B syncs              => B: ILLEGAL_GENERATION
        A syncs A=x          => A: ILLEGAL_GENERATION
        C syncs              => C: UNKNOWN_MEMBER_ID
        B joins              => B: generation 1, follows A
    """)
