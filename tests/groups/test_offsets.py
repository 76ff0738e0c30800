"""A group's offsets: taken, dropped, held back, and how they age."""

from __future__ import annotations

import pytest

from ottla.groups.offsets import Aging, Offsets
from ottla.groups.records import Committed, offset_key

DAY, WEEK = 86_400_000, 7 * 86_400_000


@pytest.fixture
def offsets() -> Offsets:
    made = Offsets("g")
    made.commit("t", 0, Committed(1, -1, "", 0))
    made.commit("t", 1, Committed(2, -1, "", 3 * DAY))
    made.commit("u", 0, Committed(3, -1, "", 0))
    return made


def left(offsets):
    return [(topic, partition) for topic, partition, _ in offsets]


def test_offsets_age_from_their_commit_on(offsets):
    assert offsets.expire(Aging(), WEEK - 1, WEEK) == []
    assert [write.key for write in offsets.expire(Aging(), WEEK, WEEK)] == [
        offset_key("g", "t", 0),
        offset_key("g", "u", 0),
    ]
    assert left(offsets) == [("t", 1)]


def test_offsets_of_a_group_that_lost_its_members_age_from_then_on(offsets):
    assert offsets.expire(Aging(since=5 * DAY), 5 * DAY + WEEK - 1, WEEK) == []
    assert len(offsets.expire(Aging(since=5 * DAY), 5 * DAY + WEEK, WEEK)) == 3
    assert not offsets


def test_offsets_of_topics_that_members_read_do_not_age(offsets):
    offsets.expire(Aging(kept=frozenset("t")), 100 * DAY, WEEK)
    assert left(offsets) == [("t", 0), ("t", 1)]


def test_an_expiry_that_the_client_asked_for_overrules_the_retention(offsets):
    offsets.commit("t", 0, Committed(1, -1, "", 0, expires_at=10))
    offsets.commit("u", 0, Committed(1, -1, "", 0, expires_at=90 * DAY))
    offsets.expire(Aging(), 9, WEEK)
    assert len(left(offsets)) == 3
    offsets.expire(Aging(), 10, WEEK)
    assert left(offsets) == [("t", 1), ("u", 0)]
    offsets.expire(Aging(), 80 * DAY, WEEK)
    assert left(offsets) == [("u", 0)]


def test_dropping_a_topic_drops_its_offsets_only(offsets):
    assert [write.value for write in offsets.drop_topic("t")] == [None, None]
    assert offsets.drop_topic("t") == []
    assert left(offsets) == [("u", 0)]


def test_dropping_all_leaves_nothing(offsets):
    assert len(offsets.drop_all()) == 3
    assert not offsets


def test_an_offset_that_a_transaction_holds_back_makes_its_partition_unstable_and_keeps_it(offsets):
    offsets.hold_back(7, "t", 0, Committed(9, -1, "", 0))
    assert offsets.is_unstable("t", 0)
    assert not offsets.is_unstable("t", 1)
    offsets.expire(Aging(), 100 * DAY, WEEK)
    assert left(offsets) == [("t", 0)]
    offsets.drop_topic("t")
    assert not offsets.is_unstable("t", 0)
