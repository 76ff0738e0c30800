"""Every partition goes to exactly one subscriber, evenly, and nothing moves without need."""

from __future__ import annotations

from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.consumer.assignors import ASSIGNORS, Subscriber, assign_range, assign_uniform

TOPICS = [b"topic-%010d" % number for number in range(5)]
BOTH = pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)


@st.composite
def groups(draw, *, alike=False, most=6):
    """Members, what they hold (once each, maybe of topics that are gone or have shrunk), and partitions."""
    partitions = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9)))
    some = st.frozensets(st.sampled_from(sorted(partitions))) if partitions else st.just(frozenset())
    same = draw(some)
    members = [
        Subscriber(f"m{number}", draw(st.none() | st.just(f"i{9 - number}")), same if alike else draw(some), {})
        for number in range(draw(st.integers(1, most)))
    ]
    owner = draw(
        st.dictionaries(st.tuples(st.sampled_from(TOPICS), st.integers(0, 9)), st.integers(0, len(members) - 1))
    )
    for (topic, index), at in owner.items():
        members[at].held.setdefault(topic, set()).add(index)  # type: ignore[attr-defined]
    return members, partitions


def flat(assignment):
    return {(topic, index) for topic, indexes in assignment.items() for index in indexes}


def again(members, found):
    return [member._replace(held=found[member.id]) for member in members]


@BOTH
@given(group=groups())
def test_each_partition_that_somebody_reads_has_one_owner_who_reads_it(assign, group):
    members, partitions = group
    found = assign(members, partitions)
    assert set(found) == {member.id for member in members}
    given_out = [one for assignment in found.values() for one in flat(assignment)]
    read = set().union(*(member.topics for member in members))
    assert sorted(given_out) == sorted((topic, index) for topic in read for index in range(partitions[topic]))
    for member in members:
        assert set(found[member.id]) <= member.topics
        assert all(found[member.id].values()), "a topic without partitions is not named"


@BOTH
@given(group=groups())
def test_the_same_question_has_the_same_answer_and_an_answer_stands(assign, group):
    members, partitions = group
    found = assign(members, partitions)
    assert assign(members, partitions) == found
    assert assign(again(members, found), partitions) == found


@given(group=groups(alike=True))
def test_members_that_read_the_same_get_as_many_give_or_take_one_and_no_more_moves_than_must(group):
    members, partitions = group
    found = assign_uniform(members, partitions)
    sizes = [len(flat(assignment)) for assignment in found.values()]
    assert max(sizes) - min(sizes) <= 1
    read = members[0].topics
    total = sum(partitions[topic] for topic in read)
    kept = {
        member.id: {one for one in flat(member.held) if one[0] in read and one[1] < partitions[one[0]]}
        for member in members
    }
    each, extra = divmod(total, len(members))
    largest = sorted((len(mine) for mine in kept.values()), reverse=True)
    must_move = sum(max(size - each - (at < extra), 0) for at, size in enumerate(largest))
    moved = sum(len(mine - flat(found[member_id])) for member_id, mine in kept.items())
    assert moved == must_move


@given(group=groups())
def test_members_that_read_different_topics_get_what_no_single_move_would_make_more_even(group):
    members, partitions = group
    found = assign_uniform(members, partitions)
    load = {member_id: len(flat(assignment)) for member_id, assignment in found.items()}
    for member in members:
        for topic in found[member.id]:
            for other in members:
                if topic in other.topics:
                    assert load[member.id] - load[other.id] <= 1


@given(group=groups(alike=True), leaves=st.integers(0, 5))
def test_who_stays_keeps_what_it_has_when_another_leaves(group, leaves):
    members, partitions = group
    before = assign_uniform(members, partitions)
    staying = [member for at, member in enumerate(again(members, before)) if at != leaves]
    if staying:
        after = assign_uniform(staying, partitions)
        for member in staying:
            assert flat(before[member.id]) <= flat(after[member.id])


@given(group=groups(alike=True))
def test_range_cuts_topics_of_the_same_size_alike(group):
    members, partitions = group
    found = assign_range(members, dict.fromkeys(partitions, 7))
    for assignment in found.values():
        assert len(set(assignment.values())) <= 1
        for indexes in assignment.values():
            assert max(indexes) - min(indexes) == len(indexes) - 1


def test_range_gives_the_first_members_one_more_and_static_ones_are_first_by_instance():
    topic = TOPICS[0]
    members = [
        Subscriber("a", None, frozenset({topic}), {}),
        Subscriber("z", "i1", frozenset({topic}), {}),
        Subscriber("b", "i2", frozenset({topic}), {}),
    ]
    assert assign_range(members, {topic: 7}) == {
        "z": {topic: frozenset({0, 1, 2})},
        "b": {topic: frozenset({3, 4})},
        "a": {topic: frozenset({5, 6})},
    }
    assert assign_range(members, {topic: 2})["a"] == {}


def test_uniform_spreads_the_partitions_of_a_topic():
    read = frozenset(TOPICS[:2])
    found = assign_uniform([Subscriber(id, None, read, {}) for id in "ab"], dict.fromkeys(TOPICS[:2], 4))
    assert all(len(indexes) == 2 for assignment in found.values() for indexes in assignment.values())


def test_five_hundred_members_and_a_thousand_partitions_do_not_hold_up_the_loop():
    partitions = {b"%016d" % number: 10 for number in range(100)}
    members = [Subscriber(f"m{number}", None, frozenset(partitions), {}) for number in range(500)]
    best = {}
    for name, assign in ASSIGNORS.items():
        times = []
        for _ in range(5):
            start = perf_counter()
            assign(members, partitions)
            times.append(perf_counter() - start)
        best[name] = min(times)
    assert max(best.values()) < 0.1, best
