"""CreatePartitions through the wire: partitions that serve at once, refusals, restarts, disks that refuse."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from support.requests import batch, fetch, produce, values_in

Topic = messages.CreatePartitionsRequest.Topic
Assignment = messages.CreatePartitionsRequest.Assignment


def more(name, count, assignments=None):
    brokers = None if assignments is None else [Assignment(broker_ids=ids) for ids in assignments]
    return Topic(name=name, count=count, assignments=brokers)


def grow(wire, *topics, version=3, timeout_ms=10_000, validate_only=False):
    request = messages.CreatePartitionsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)
    return [(one.name, ErrorCode(one.error_code), one.error_message) for one in wire.call(request, version).results]


def shown(wire, topic):
    reply = wire.call(messages.MetadataRequest(topics=[messages.MetadataRequest.Topic(name=topic)]), 12)
    return [(one.partition_index, one.leader_id, one.error_code) for one in reply.topics[0].partitions]


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_partitions_that_serve_at_once(served, wire, version):
    id = wire.create("t", 2)
    produce(wire, "t", batch("old"), 1)
    assert grow(wire, more("t", 4), version=version) == [("t", ErrorCode.NONE, None)]
    assert shown(wire, "t") == [(index, 0, 0) for index in range(4)]
    assert produce(wire, "t", batch("new"), 3).error_code == 0
    assert produce(wire, id, batch("by id"), 2, version=13).error_code == 0
    assert values_in(fetch(wire, "t", 0, 3).records) == ["new"]
    assert values_in(fetch(wire, "t", 0, 2).records) == ["by id"]
    assert values_in(fetch(wire, "t", 0, 1).records) == ["old"]
    served.restart()
    assert shown(served.wire(), "t") == [(index, 0, 0) for index in range(4)]
    assert values_in(fetch(served.wire(), "t", 0, 3).records) == ["new"]


def test_each_topic_of_a_request_has_its_own_fate(wire):
    for name in ("good", "same", "smaller", "twice"):
        wire.create(name, 2)
    results = grow(
        wire,
        more("good", 3, [[0]]),
        more("same", 2),
        more("smaller", 1),
        more("no.such", 5),
        more("twice", 3),
        more("twice", 4),
    )
    assert [(name, code.name) for name, code, _ in results] == [
        ("good", "NONE"),
        ("same", "INVALID_PARTITIONS"),
        ("smaller", "INVALID_PARTITIONS"),
        ("no.such", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("twice", "INVALID_REQUEST"),
    ]
    assert all(message for _, code, message in results if code)
    assert len(shown(wire, "good")) == 3
    assert len(shown(wire, "same")) == len(shown(wire, "twice")) == 2


def test_validate_only_answers_and_adds_nothing(wire):
    wire.create("t", 1)
    assert [code for _, code, _ in grow(wire, more("t", 9), validate_only=True)] == [ErrorCode.NONE]
    assert [code for _, code, _ in grow(wire, more("t", 1), validate_only=True)] == [ErrorCode.INVALID_PARTITIONS]
    assert len(shown(wire, "t")) == 1


def test_a_request_past_its_timeout_says_so_and_goes_on(wire, until):
    wire.create("t", 1)
    assert [code for _, code, _ in grow(wire, more("t", 3), timeout_ms=0)] == [ErrorCode.REQUEST_TIMED_OUT]
    until(lambda: len(shown(wire, "t")) == 3)


def test_new_partitions_take_the_settings_of_their_topic(served, wire):
    wire.create("t", 1, {"segment.bytes": "1000"})
    grow(wire, more("t", 2))
    assert served.broker.partition("t", 1).config.segment_bytes == 1000


def test_a_topic_that_is_made_again_has_no_partitions_of_the_old_one(served, wire):
    wire.create("t", 1)
    grow(wire, more("t", 3))
    produce(wire, "t", batch("secret"), 2)
    wire.call(messages.DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000), 5)
    wire.create("t", 1)
    assert len(shown(wire, "t")) == 1
    grow(wire, more("t", 3))
    assert values_in(fetch(wire, "t", 0, 2).records) == []
    served.restart()
    assert values_in(fetch(served.wire(), "t", 0, 2).records) == []


def test_partitions_whose_logs_cannot_be_made_are_not_there_at_all(served, wire, monkeypatch):
    wire.create("t", 1)
    (directory,) = map(Path, served.settings["log_dirs"])
    make = os.mkdir

    def refuse_one(path, *more):
        if str(path).endswith("t-2"):
            raise OSError(errno.ENOSPC, "No space left on device")
        make(path, *more)

    with monkeypatch.context() as full:
        full.setattr(os, "mkdir", refuse_one)
        assert [code for _, code, _ in grow(wire, more("t", 3))] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert len(shown(wire, "t")) == 1
    assert [path.name for path in directory.glob("t-*")] == ["t-0"]
    assert produce(wire, "t", batch("x"), 1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    served.restart()
    wire = served.wire()
    assert len(shown(wire, "t")) == 1
    assert [code for _, code, _ in grow(wire, more("t", 3))] == [ErrorCode.NONE]
    assert produce(wire, "t", batch("x"), 2).error_code == ErrorCode.NONE
