"""Replica placement: the worked examples of the texts, and the goals for any cluster."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.placement import BadAssignment, ImpossibleReplication, check_assignment, place


def spread(placed):
    return Counter(broker for replicas in placed for broker in replicas)


def test_the_walk_through_of_the_texts_comes_out_as_told():
    """A1 EX-22: 6 brokers, 10 partitions, 3 replicas, start at broker 4."""
    placed = place(10, 3, dict.fromkeys(range(6)), 4)
    assert placed[0] == [4, 5, 0]
    assert placed[1] == [5, 0, 1]
    assert placed[2][0] == 0
    assert spread(placed) == dict.fromkeys(range(6), 5)


def test_racks_take_turns():
    """A1 T-19: racks {0,1,2} and {3,4,5} make the ring 0 3 1 4 2 5."""
    racks = {0: "a", 1: "a", 2: "a", 3: "b", 4: "b", 5: "b"}
    leaders = [replicas[0] for replicas in place(6, 1, racks, 0)]
    assert leaders == [0, 3, 1, 4, 2, 5]
    by_leader = {replicas[0]: replicas for replicas in place(6, 2, racks, 0)}
    assert by_leader[4][1] == 2


def test_racks_do_not_count_unless_every_broker_has_one():
    assert place(3, 1, {0: "a", 1: "a", 2: None}, 0) == [[0], [1], [2]]


def test_more_replicas_than_brokers_are_impossible():
    with pytest.raises(ImpossibleReplication, match="3 replicas need 3 brokers, and there are 2"):
        place(1, 3, {0: None, 1: None}, 0)
    with pytest.raises(ImpossibleReplication):
        place(1, 1, {}, 0)


def test_followers_of_one_leader_differ_from_round_to_round():
    placed = place(12, 2, dict.fromkeys(range(4)), 0)
    assert len({tuple(replicas) for replicas in placed if replicas[0] == 0}) > 1


CLUSTERS = st.dictionaries(st.integers(0, 50), st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=9)


@given(brokers=CLUSTERS, racked=st.booleans(), partitions=st.integers(1, 40), data=st.data())
def test_the_goals_hold_for_any_cluster(brokers, racked, partitions, data):
    """A1 T-17."""
    if not racked:
        brokers = dict.fromkeys(brokers)
    replicas = data.draw(st.integers(1, len(brokers)))
    start = data.draw(st.integers(0, 20))
    placed = place(partitions, replicas, brokers, start)
    assert len(placed) == partitions
    leaders = Counter(dict.fromkeys(brokers, 0)) + Counter(chosen[0] for chosen in placed)
    counts = [leaders[broker] for broker in brokers]
    assert max(counts) - min(counts) <= 1, "leaders are spread evenly"
    for chosen in placed:
        assert len(set(chosen)) == replicas, "replicas of a partition are on different brokers"
        if racked:
            racks = len(set(brokers.values()))
            assert len({brokers[broker] for broker in chosen}) == min(replicas, racks), "and on different racks"
    if not racked and partitions >= len(brokers):
        loads = [spread(placed)[broker] for broker in brokers]
        assert max(loads) - min(loads) <= 1, "replicas are spread evenly"


def test_a_good_assignment_is_taken_as_it_is_in_partition_order():
    assert check_assignment([(1, [2, 0]), (0, [1, 2])], dict.fromkeys(range(3))) == [[1, 2], [2, 0]]


@pytest.mark.parametrize(
    ("assignment", "fault"),
    [
        ([(0, [0]), (0, [1])], "twice"),
        ([(0, [])], "no broker"),
        ([(0, [1, 1])], "a broker twice"),
        ([(0, [7])], "broker 7"),
        ([(0, [0]), (1, [0, 1])], "different numbers"),
        ([(0, [0]), (2, [0])], "without gaps"),
        ([(1, [0])], "without gaps"),
    ],
)
def test_a_bad_assignment_is_told_what_is_wrong(assignment, fault):
    with pytest.raises(BadAssignment, match=fault):
        check_assignment(assignment, dict.fromkeys(range(3)))
