"""Old segments go while a broker runs: by time, by size, by DeleteRecords, and for good."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.broker.retention import check_retention
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record, iter_records
from ottla.testing import BrokerProcess
from support.wire import Wire

HOUR = 3_600_000
EAGER = {"log.initial.task.delay.ms": "0", "log.retention.check.interval.ms": "20"}
SMALL = {"segment.bytes": "200"}  # two of these records
SINGLE = {"segment.bytes": "100"}  # one


def check(served: Any) -> None:
    """One round of what the broker does every five minutes."""
    served.run(check_retention(served.broker))


def write(wire: Wire, count: int, *, topic: str = "t", age_ms: int = 0) -> None:
    now = int(time() * 1000) - age_ms
    for number in range(count):
        wire.produce(topic, [Record(0, now, b"k", b"%d" % number)])


def offsets(wire: Wire, topic: str = "t") -> tuple[int, int]:
    """The first offset of partition 0 and the one behind its last."""

    def ask(timestamp: int) -> int:
        partition = messages.ListOffsetsRequest.Partition(partition_index=0, timestamp=timestamp)
        asked = messages.ListOffsetsRequest.Topic(name=topic, partitions=[partition])
        (answer,) = wire.call(messages.ListOffsetsRequest(replica_id=-1, topics=[asked]), 7).topics[0].partitions
        assert answer.error_code == 0
        return int(answer.offset)

    return ask(-2), ask(-1)


def fetch(wire: Wire, offset: int, topic: str = "t") -> messages.FetchResponse.Partition:
    (answer,) = wire.call(fetch_request(offset, topic=topic), 11).responses[0].partitions
    return answer


def fetch_request(offset: int, limit: int = 1 << 20, topic: str = "t") -> messages.FetchRequest:
    partition = messages.FetchRequest.Partition(partition=0, fetch_offset=offset, partition_max_bytes=limit)
    return messages.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=limit,
        topics=[messages.FetchRequest.Topic(topic=topic, partitions=[partition])],
    )


def delete_records(wire: Wire, offset: int, *, topic: str = "t", partition: int = 0, version: int = 2) -> Any:
    asked = messages.DeleteRecordsRequest.Partition(partition_index=partition, offset=offset)
    topics = [messages.DeleteRecordsRequest.Topic(name=topic, partitions=[asked])]
    (answer,) = wire.call(messages.DeleteRecordsRequest(topics=topics, timeout_ms=1000), version).topics[0].partitions
    return answer


def files(directory: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in directory.glob("*" + suffix))


# -- retention ---------------------------------------------------------------------------------------------------


def test_records_past_their_time_go_and_younger_ones_stay(served, wire):
    wire.create("t", configs={**SMALL, "retention.ms": str(HOUR), "segment.ms": str(1000 * HOUR)})
    write(wire, 6, age_ms=2 * HOUR)
    write(wire, 3)
    check(served)
    assert offsets(wire) == (6, 9)
    assert fetch(wire, 5).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(wire, 6).error_code == 0


def test_a_log_whose_every_record_is_too_old_is_emptied_and_goes_on_from_there(served, wire):
    wire.create("t", configs={"retention.ms": str(HOUR)})
    write(wire, 5, age_ms=2 * HOUR)
    check(served)
    assert offsets(wire) == (5, 5)
    wire.produce("t", [Record(0, int(time() * 1000), None, b"new")])
    assert offsets(wire) == (5, 6)
    wire = served.restart().wire()
    assert offsets(wire) == (5, 6)


def test_a_log_too_large_loses_its_oldest_segments(served, wire, tmp_path):
    wire.create("t", configs={**SMALL, "retention.bytes": "400"})
    write(wire, 20)
    check(served)
    assert offsets(wire) == (14, 20)
    kept = sum(path.stat().st_size for path in tmp_path.glob("*/t-0/*.log"))
    assert 400 <= kept < 400 + 200


def test_a_compacted_topic_keeps_what_is_old(served, wire):
    wire.create("kept", configs={**SMALL, "retention.ms": "1", "cleanup.policy": "compact"})
    wire.create("t", configs={**SMALL, "retention.ms": "1"})
    write(wire, 4, topic="kept", age_ms=HOUR)
    write(wire, 4, age_ms=HOUR)
    check(served)
    assert offsets(wire) == (4, 4)
    assert offsets(wire, "kept") == (0, 4)


def test_the_brokers_own_retention_holds_where_a_topic_says_nothing(serve):
    served = serve(log_retention_minutes=1, log_segment_bytes=200)
    wire = served.wire()
    wire.create("t")
    wire.create("kept", configs={"retention.ms": "-1"})
    write(wire, 4, topic="kept", age_ms=HOUR)
    write(wire, 4, age_ms=HOUR)
    check(served)
    assert offsets(wire) == (4, 4)
    assert offsets(wire, "kept") == (0, 4)


def test_files_are_renamed_at_once_and_removed_after_the_delay(served, wire, until, tmp_path):
    wire.create("soon", configs={**SMALL, "retention.ms": "1", "file.delete.delay.ms": "0"})
    wire.create("late", configs={**SMALL, "retention.ms": "1", "file.delete.delay.ms": str(HOUR)})
    for topic in ("soon", "late"):
        write(wire, 4, topic=topic, age_ms=HOUR)
        check(served)
        assert files(tmp_path / "data-0" / f"{topic}-0", ".log") == ["00000000000000000004.log"]
    until(lambda: files(tmp_path / "data-0" / "soon-0", ".deleted") == [])
    assert len(files(tmp_path / "data-0" / "late-0", ".log.deleted")) == 2


def test_a_consumer_that_is_being_sent_a_deleted_segment_gets_all_of_it(served, wire, until, tmp_path):
    slow = served.wire()
    limit = 16 << 20
    wire.create("t", configs={"max.message.bytes": str(limit), "file.delete.delay.ms": "0"})
    value = b"x" * (limit - 1000)  # more than sockets hold
    wire.produce("t", [Record(0, int(time() * 1000) - 2 * 168 * HOUR, None, value)])
    asked = slow.send(fetch_request(0, limit), 11)
    slow.socket.recv(1, socket.MSG_PEEK)
    check(served)
    assert offsets(wire) == (1, 1)
    until(lambda: files(tmp_path / "data-0" / "t-0", ".deleted") == [])
    (partition,) = slow.receive("Fetch", 11, asked).responses[0].partitions
    assert [record.value for record in iter_records(partition.records, 2 * limit)] == [value]


# -- DeleteRecords -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
def test_deleted_records_are_out_of_range_and_their_segments_go_at_the_next_check(served, wire, tmp_path, version):
    wire.create("t", configs=SMALL)
    write(wire, 7)
    answer = delete_records(wire, 5, version=version)
    assert (answer.partition_index, answer.error_code, answer.low_watermark) == (0, 0, 5)
    assert offsets(wire) == (5, 7)
    assert fetch(wire, 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(wire, 5).error_code == 0
    check(served)
    assert files(tmp_path / "data-0" / "t-0", ".log")[0] == "00000000000000000004.log"
    assert offsets(wire) == (5, 7)


def test_minus_one_deletes_up_to_the_high_watermark(wire):
    wire.create("t")
    write(wire, 7)
    assert delete_records(wire, -1).low_watermark == 7
    assert offsets(wire) == (7, 7)
    assert fetch(wire, 7).error_code == 0


def test_an_offset_before_the_start_changes_nothing(wire):
    wire.create("t")
    write(wire, 7)
    delete_records(wire, 5)
    assert (delete_records(wire, 2).error_code, delete_records(wire, 2).low_watermark) == (0, 5)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"offset": 4}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": -2}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": 1, "topic": "nope"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"offset": 1, "partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"offset": 1, "partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"offset": 1, "topic": "compacted"}, ErrorCode.POLICY_VIOLATION),
        ({"offset": 1, "topic": "__consumer_offsets"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_cannot_be_deleted_is_refused(wire, asked, code):
    wire.create("t")
    wire.create("compacted", configs={"cleanup.policy": "compact"})
    wire.create("__consumer_offsets")
    write(wire, 3)
    write(wire, 3, topic="compacted")
    answer = delete_records(wire, **asked)
    assert (answer.error_code, answer.low_watermark) == (code, -1)
    assert offsets(wire) == (0, 3)
    assert offsets(wire, "compacted") == (0, 3)


def test_confluents_admin_client_deletes_records(ottla_broker: BrokerProcess) -> None:
    wire = Wire("127.0.0.1", ottla_broker.port)
    wire.create("t")
    write(wire, 5)
    admin = AdminClient({"bootstrap.servers": ottla_broker.bootstrap})
    (future,) = admin.delete_records([TopicPartition("t", 0, 3)]).values()
    assert future.result(10).low_watermark == 3
    assert offsets(wire) == (3, 5)
    (future,) = admin.delete_records([TopicPartition("t", 0, 9)]).values()
    with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
        future.result(10)
    wire.close()


def test_a_broker_killed_right_after_the_reply_does_not_bring_records_back(
    ottla_broker_factory: Callable[..., BrokerProcess],
) -> None:
    broker = ottla_broker_factory(overrides={"log.retention.check.interval.ms": "3600000"})
    wire = Wire("127.0.0.1", broker.port)
    wire.create("t", configs=SMALL)
    write(wire, 9)
    assert delete_records(wire, 5).low_watermark == 5
    broker.kill()
    wire.close()
    broker.start()
    wire = Wire("127.0.0.1", broker.port)
    assert offsets(wire) == (5, 9)
    assert fetch(wire, 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    wire.close()


def test_a_broker_killed_after_retention_worked_starts_where_it_left_the_log(
    ottla_broker_factory: Callable[..., BrokerProcess], until: Callable[..., Any]
) -> None:
    broker = ottla_broker_factory(overrides=EAGER)
    wire = Wire("127.0.0.1", broker.port)
    wire.create("t", configs={**SINGLE, "retention.ms": str(HOUR)})
    write(wire, 6, age_ms=2 * HOUR)
    write(wire, 3)
    until(lambda: offsets(wire) == (6, 9))
    broker.kill()
    wire.close()
    broker.start()
    wire = Wire("127.0.0.1", broker.port)
    assert offsets(wire) == (6, 9)
    assert files(broker.data_dir / "t-0", ".deleted") == []
    wire.close()


# -- deleted topics ----------------------------------------------------------------------------------------------


def test_a_disk_that_does_not_take_the_new_start_is_said_and_the_connection_goes_on(serve, monkeypatch):
    wire = serve().wire()
    wire.create("t")
    write(wire, 3)
    replace = os.replace

    def refuse(source: Any, target: Any) -> None:
        if str(target).endswith("leader-epoch-checkpoint"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    with monkeypatch.context() as full:
        full.setattr(os, "replace", refuse)
        answer = delete_records(wire, 1)
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert delete_records(wire, 2).low_watermark == 2


def delete_topic(wire: Wire, name: str) -> None:
    body = messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
    assert [answer.error_code for answer in wire.call(body, 5).responses] == [0]


def test_a_deleted_topics_directory_is_out_of_sight_and_removed_after_the_delay(serve, until, tmp_path):
    wire = serve().wire()
    data = tmp_path / "data-0"
    for delay in ("0", str(HOUR)):
        wire.create("t", configs={"file.delete.delay.ms": delay})
        write(wire, 2)
        delete_topic(wire, "t")
        assert not (data / "t-0").exists()
        if delay == "0":
            until(lambda: not list(data.glob("t-0.*-delete")))
    assert len(list(data.glob("t-0.*-delete/*.log"))) == 1


def test_a_topic_made_again_under_the_same_name_never_shows_old_data(
    ottla_broker_factory: Callable[..., BrokerProcess],
) -> None:
    """Neither records nor the old start of the log, whether or not the broker is killed in between."""
    broker = ottla_broker_factory()
    wire = Wire("127.0.0.1", broker.port)
    wire.create("t")
    write(wire, 9)
    delete_records(wire, 7)
    delete_topic(wire, "t")
    wire.create("t")
    assert offsets(wire) == (0, 0)
    write(wire, 3)
    broker.kill()
    wire.close()
    broker.start()
    wire = Wire("127.0.0.1", broker.port)
    assert offsets(wire) == (0, 3)
    wire.close()
