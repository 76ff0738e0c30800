"""A broker's settings change while it runs: what holds at once, and after it has been killed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from time import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from ottla.broker.retention import check_retention
from ottla.config.broker import BrokerConfig
from ottla.config.definitions import READ_ONLY, ConfigType, Setting
from ottla.config.log_defaults import LogDefaults
from ottla.config.topic import TopicConfig
from ottla.protocol import messages
from ottla.protocol.batch import CODEC_MASK
from ottla.protocol.compression import ZSTD
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record, build_batch, iter_batches
from ottla.storage.compaction.offset_map import OffsetMap
from ottla.testing import BrokerProcess
from support.requests import batch, fetch, produce
from support.settings import BROKER, DELETE, GROUP, SET, alter, rows
from support.wire import Wire

CLOSED = (ConnectionError, EOFError)


def sent(producer: Producer, topic: str, value: bytes) -> KafkaError | None:
    """What became of one record."""
    outcomes: list[KafkaError | None] = []

    def done(error: KafkaError | None, _: Message) -> None:
        outcomes.append(error)

    producer.produce(topic, value, on_delivery=done)
    assert producer.flush(30) == 0
    return outcomes[0]


def test_a_smaller_limit_holds_for_a_producer_that_is_connected_and_after_the_brokers_death(
    ottla_broker: BrokerProcess,
) -> None:
    admin = AdminClient({"bootstrap.servers": ottla_broker.bootstrap})
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap, "linger.ms": 0})
    wire = Wire("127.0.0.1", ottla_broker.port)
    wire.create("plain")
    wire.create("own", configs={"max.message.bytes": "100000"})
    large = b"x" * 5000
    assert sent(producer, "plain", large) is None

    entry = ConfigEntry("message.max.bytes", "2000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
    refused = sent(producer, "plain", large)
    assert refused is not None
    assert refused.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert sent(producer, "own", large) is None
    wire.close()

    ottla_broker.kill()
    ottla_broker.start()
    wire = Wire("127.0.0.1", ottla_broker.port)
    assert produce(wire, "plain", batch(large)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert alter(wire, BROKER, "0", (DELETE, "message.max.bytes", None)) == (0, None)
    assert produce(wire, "plain", batch(large)).error_code == 0
    wire.close()


# -- topics that leave it to the broker --------------------------------------------------------------------------


def another(known: Setting) -> str:
    """A legal value that is not the default."""
    if known.key == "log.message.timestamp.type":
        return "LogAppendTime"
    if known.type is ConfigType.STRING:
        return "zstd"
    if known.type is ConfigType.BOOLEAN:
        return "true"
    if known.key == "log.segment.bytes":
        return "5000"
    return {ConfigType.LIST: "compact", ConfigType.DOUBLE: "0.25"}.get(known.type, "5")


DEFAULTS = [one for one in LogDefaults.settings.values() if one.dynamic != READ_ONLY and not one.no_effect]


def test_every_default_of_topics_reaches_their_partitions_and_leaves_them_again(served, wire):
    wire.create("plain", 2)
    mine = {"retention.ms": "12345", "segment.bytes": "6789"}
    wire.create("own", 1, mine)
    broker = served.broker
    before = broker.partition("plain", 0).config
    for known in DEFAULTS:
        assert alter(wire, BROKER, "", (SET, known.key, another(known))) == (0, None), known.key
        for index in (0, 1):
            partition = broker.partition("plain", index)
            assert partition.config != before, known.key
            assert partition.config == partition.log.config == TopicConfig.resolve({}, broker.config)
        own = broker.partition("own", 0).config
        assert (own.retention_ms, own.segment_bytes) == (12345, 6789)
        alter(wire, BROKER, "", (DELETE, known.key, None))
        assert broker.partition("plain", 0).config == before
    assert len(DEFAULTS) > 20


def test_a_new_topic_begins_with_what_was_set_meanwhile(served, wire):
    alter(wire, BROKER, "0", (SET, "log.segment.bytes", "4000"))
    wire.create("t")
    assert served.broker.partition("t", 0).config.segment_bytes == 4000
    assert served.restart().broker.partition("t", 0).config.segment_bytes == 4000


def test_old_records_go_by_a_shorter_retention(served, wire):
    wire.create("t", configs={"segment.bytes": "150"})
    an_hour_ago = int(time() * 1000) - 3_600_000
    for _ in range(3):
        wire.produce("t", [Record(0, an_hour_ago, None, b"v" * 50)])
    served.run(check_retention(served.broker))
    assert served.broker.partition("t", 0).log.start_offset == 0
    alter(wire, BROKER, "", (SET, "log.retention.ms", "60000"))
    served.run(check_retention(served.broker))
    assert served.broker.partition("t", 0).log.start_offset == 3


def test_batches_are_packed_by_a_new_codec(wire):
    wire.create("t")
    alter(wire, BROKER, "0", (SET, "compression.type", "zstd"))
    assert produce(wire, "t", batch("a" * 500)).error_code == 0
    ((_, header),) = iter_batches(bytes(fetch(wire, "t", 0).records))
    assert header.attributes & CODEC_MASK == ZSTD


def test_more_replicas_are_asked_for_at_once(wire):
    wire.create("t")
    alter(wire, BROKER, "", (SET, "min.isr", "2"))
    assert rows(wire, BROKER, "") == {"min.insync.replicas": ("2", 3)}
    assert produce(wire, "t", batch("v"), acks=-1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    alter(wire, BROKER, "", (DELETE, "min.insync.replicas", None))
    assert produce(wire, "t", batch("v"), acks=-1).error_code == 0


def test_records_are_flushed_as_often_as_is_said_now(served, wire, until):
    wire.create("t")
    log = served.broker.partition("t", 0).log
    produce(wire, "t", batch("v"))
    assert log.recovery_point == 0
    alter(wire, BROKER, "0", (SET, "log.flush.interval.messages", "1"))
    produce(wire, "t", batch("v"))
    assert log.recovery_point == 2
    alter(wire, BROKER, "0", (DELETE, "log.flush.interval.messages", None), (SET, "log.flush.interval.ms", "20"))
    produce(wire, "t", batch("v"))
    until(lambda: log.recovery_point == 3)


def test_a_topic_becomes_compacted_and_the_cleaner_looks_at_once(serve, until):
    served = serve(log_cleaner_backoff_ms=3_600_000)
    wire = served.wire()
    wire.create("t", configs={"segment.bytes": "300", "min.cleanable.dirty.ratio": "0.01"})
    for _ in range(5):
        wire.produce("t", [Record(0, int(time() * 1000), b"k", b"v" * 150)])
    alter(wire, BROKER, "0", (SET, "log.cleanup.policy", "compact"), (SET, "log.cleaner.backoff.ms", "20"))
    until(lambda: served.broker.cleaner.cleaned > 0)


COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "10000", "min.cleanable.dirty.ratio": "0.01"}


def fill(wire: Wire) -> None:
    """A segment's worth of different keys."""
    wire.produce("t", [Record(index, int(time() * 1000), f"{index}".encode(), b"v" * 20) for index in range(200)])


def test_the_cleaner_goes_by_the_memory_and_the_threads_that_are_set_now(serve, until):
    served = serve(log_cleaner_backoff_ms=20)
    wire, cleaner = served.wire(), served.broker.cleaner
    wire.create("t", configs=COMPACTED)
    for key, value in (
        ("log.cleaner.dedupe.buffer.size", "4848"),
        ("log.cleaner.threads", "2"),
        ("log.cleaner.io.buffer.load.factor", "0.25"),
        ("log.cleaner.io.buffer.size", "100000"),
    ):
        assert alter(wire, BROKER, "0", (SET, key, value)) == (0, None)
    for _ in range(3):
        fill(wire)
    until(lambda: cleaner.uncleanable)
    assert f"the offset map takes {OffsetMap(4848 // 2, 0.25, 1000).limit} keys" in cleaner.uncleanable["t", 0]
    alter(wire, BROKER, "0", (DELETE, "log.cleaner.threads", None), (SET, "log.cleaner.dedupe.buffer.size", "20000"))
    until(lambda: cleaner.cleaned > 0)
    assert cleaner.last_totals.map_keys == OffsetMap(20_000, 0.25, 1000).limit
    assert not cleaner.uncleanable


def test_the_cleaner_goes_at_the_speed_that_is_set_now(serve, until):
    served = serve(log_cleaner_backoff_ms=20)
    wire, cleaner = served.wire(), served.broker.cleaner
    alter(wire, BROKER, "", (SET, "log.cleaner.io.max.bytes.per.second", "50000"))
    wire.create("t", configs=COMPACTED)
    for _ in range(3):
        fill(wire)
    until(lambda: cleaner.cleaned > 0)
    assert cleaner.last_totals.seconds > cleaner.last_totals.bytes_read / 50_000 / 2


# -- connections -------------------------------------------------------------------------------------------------


def is_served(served: Any) -> bool:
    wire = served.wire()
    try:
        wire.call(messages.ApiVersionsRequest(), 0)
    except CLOSED:
        return False
    finally:
        wire.close()
    return True


@pytest.mark.parametrize(
    ("key", "value"),
    [("max.connections", "1"), ("max.connections.per.ip", "1"), ("max.connections.per.ip.overrides", "127.0.0.1:1")],
)
def test_limits_on_connections_hold_for_the_next_one_and_spare_those_that_are_open(served, wire, key, value):
    assert is_served(served)
    assert alter(wire, BROKER, "", (SET, key, value)) == (0, None)
    assert not is_served(served)
    alter(wire, BROKER, "", (DELETE, key, None))
    assert is_served(served)
    alter(wire, BROKER, "0", (SET, key, value))
    assert not is_served(served)


# -- threads and memory ------------------------------------------------------------------------------------------


def at_once(served: Any, count: int, within: float = 20) -> bool:
    """Whether so many pieces of blocking work run at the same time."""
    barrier = threading.Barrier(count)

    def work() -> bool:
        try:
            barrier.wait(within)
        except threading.BrokenBarrierError:
            return False
        return True

    async def run() -> list[bool]:
        return await asyncio.gather(*(served.broker.run_blocking(work) for _ in range(count)))

    return all(served.run(run()))


def test_blocking_work_gets_as_many_threads_as_are_set_now(served, wire):
    assert alter(wire, BROKER, "0", (SET, "background.threads", "12")) == (0, None)
    assert at_once(served, 12)
    alter(wire, BROKER, "0", (SET, "background.threads", "2"))
    assert at_once(served, 2)
    assert not at_once(served, 3, within=0.2)


def test_logs_are_closed_with_as_many_threads_as_are_set_now(served, wire):
    alter(wire, BROKER, "0", (SET, "num.recovery.threads.per.data.dir", "7"))
    assert served.broker.logs.recovery_threads == 7
    assert served.restart().broker.logs.recovery_threads == 7


def test_idle_producers_are_forgotten_sooner(serve, until):
    served = serve(producer_id_expiration_check_interval_ms=20)
    wire = served.wire()
    wire.create("t")
    record = Record(0, int(time() * 1000) - 5000, None, b"v")
    wire.produce_batch("t", build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0))
    producers = served.broker.partition("t", 0).log.producers
    assert len(producers) == 1
    alter(wire, BROKER, "", (SET, "producer.id.expiration.ms", "1"))
    until(lambda: len(producers) == 0)


def test_groups_follow_the_default_interval_between_assignments_unless_they_have_their_own(served, wire):
    key = "group.consumer.assignment.interval.ms"
    assert alter(wire, GROUP, "own", (SET, "consumer.assignment.interval.ms", "7")) == (0, None)
    assert alter(wire, BROKER, "", (SET, key, "2345")) == (0, None)
    intervals = [served.broker.group_config(name).consumer_assignment_interval_ms for name in ("any", "own")]
    assert intervals == [2345, 7]


# -- what was stored by somebody else ----------------------------------------------------------------------------


def test_overrides_that_cannot_hold_do_not_keep_a_broker_from_starting(served, wire, caplog):
    alter(wire, BROKER, "", (SET, "message.max.bytes", "2000"), (SET, "log.cleaner.max.compaction.lag.ms", "5"))
    served.settings["log_cleaner_min_compaction_lag_ms"] = 50  # it was started with another file
    wire = served.restart().wire()
    assert "must not exceed" in caplog.text
    assert served.broker.config.message_max_bytes == 1_048_588
    assert alter(wire, BROKER, "", (DELETE, "log.cleaner.max.compaction.lag.ms", None)) == (0, None)
    assert served.broker.config.message_max_bytes == 2000


def test_settings_that_are_told_of_in_the_log_are_there_in_one_line(served, wire, caplog):
    caplog.set_level("INFO")
    wire.create("t", configs={"segment.ms": "5000"})
    (line,) = [line for line in caplog.messages if line.startswith("created logs of topic t with settings {")]
    for known in (
        "segment.ms -> 5000",
        "max.message.bytes -> 1048588",
        "cleanup.policy -> delete",
        "preallocate -> false",
    ):
        assert known in line
    assert line.count(" -> ") == len(TopicConfig.settings)


def test_every_setting_that_may_change_is_seen_to_hold_by_some_test_of_the_broker() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    for known in BrokerConfig.settings.values():
        if known.dynamic != READ_ONLY and not known.no_effect and known.key not in LogDefaults.settings:
            assert f'"{known.key}"' in tests, f"{known.key} can be changed at run time: show that it holds at once"
