"""Decisions about leaders."""

from __future__ import annotations

import pytest

from ottla.controller.elections import ElectionKind, plan_election
from ottla.controller.image import ClusterImage, PartitionImage, TopicImage
from ottla.protocol.errors import ErrorCode

PREFERRED, UNCLEAN = ElectionKind


@pytest.mark.parametrize(
    ("kind", "leader", "isr", "usable", "outcome"),
    [
        (PREFERRED, 1, [1, 2], {1, 2, 3}, "ELECTION_NOT_NEEDED"),
        (PREFERRED, 2, [1, 2], {1, 2, 3}, (1, [1, 2])),
        (PREFERRED, 2, [2, 3], {1, 2, 3}, "PREFERRED_LEADER_NOT_AVAILABLE"),  # not in sync
        (PREFERRED, 2, [1, 2], {2, 3}, "PREFERRED_LEADER_NOT_AVAILABLE"),  # not there
        (PREFERRED, 1, [1], {2, 3}, "PREFERRED_LEADER_NOT_AVAILABLE"),  # leads, but its disk failed
        (PREFERRED, -1, [1], {1}, (1, [1])),
        (UNCLEAN, 2, [2], {1, 2, 3}, "ELECTION_NOT_NEEDED"),
        (UNCLEAN, -1, [3], {2, 3}, (3, [3])),  # in sync goes first
        (UNCLEAN, -1, [1], {2, 3}, (2, [2])),  # what only 1 had is lost
        (UNCLEAN, 1, [1], {3}, (3, [3])),
        (UNCLEAN, 1, [1, 2], {2}, (2, [1, 2])),
        (UNCLEAN, -1, [1], set(), "ELIGIBLE_LEADERS_NOT_AVAILABLE"),
    ],
)
def test_who_leads(kind, leader, isr, usable, outcome):
    image = ClusterImage()
    image.add(TopicImage("t", bytes(16), [PartitionImage(leader, 5, [1, 2, 3], isr)], {}))
    result = plan_election("t", 0, kind, image, lambda topic, index, broker: broker in usable)
    if isinstance(outcome, str):
        assert (result.error_code, result.image) == (ErrorCode[outcome], None)
        assert result.message
    else:
        assert result.error_code == ErrorCode.NONE
        assert (result.image.leader, result.image.isr) == outcome
        assert (result.image.leader_epoch, result.image.replicas) == (6, [1, 2, 3])


@pytest.mark.parametrize(("topic", "index"), [("no", 0), ("t", 1), ("t", -1)])
def test_what_is_not_there_is_unknown(topic, index):
    image = ClusterImage()
    image.add(TopicImage("t", bytes(16), [PartitionImage(0, 0, [0], [0])], {}))
    result = plan_election(topic, index, PREFERRED, image, lambda *_: True)
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
