"""`compression.type` of a topic: batches are stored in its codec, whatever the producer's."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol import messages
from ottla.protocol.batch import BatchHeader, check, seal
from ottla.protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.protocol.errors import ErrorCode
from ottla.protocol.legacy import downconvert
from ottla.protocol.records import Record, build_batch, iter_records
from support.wire import Wire

NOW = 1_700_000_000_000
FEW = [Record(at, NOW + at, b"k%d" % at, b"value " * 20, (("h", b"1"),)) for at in range(5)]
MANY = [Record(at, NOW + at, b"k%d" % at, b"value " * 200) for at in range(100)]  # too many for the loop
CODECS = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}


def stored(served: Any, topic: str) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch of the topic as it lies on disk, checked."""
    found, position = [], 0
    data = b"".join(
        path.read_bytes() for path in sorted(Path(served.broker.partition(topic, 0).log.directory).glob("*.log"))
    )
    while position < len(data):
        header = check(data, position)
        found.append((header, list(iter_records(data[position : position + header.size], 1 << 30))))
        position += header.size
    return found


def produce(wire: Wire, topic: str, batch: bytes | bytearray, version: int = 9) -> Any:
    partition = messages.ProduceRequest.Partition(index=0, records=batch)
    request = messages.ProduceRequest(
        acks=1, timeout_ms=10_000, topic_data=[messages.ProduceRequest.Topic(name=topic, partition_data=[partition])]
    )
    (answer,) = wire.call(request, version).responses[0].partition_responses
    return answer


@pytest.mark.parametrize("records", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("source", [NONE, GZIP, ZSTD])
def test_batches_lie_on_disk_in_the_topics_codec(served: Any, wire: Wire, source: int, records: list[Record]) -> None:
    for name, codec in CODECS.items():
        wire.create(name, configs={"compression.type": name})
        for base in (0, len(records)):
            assert (
                wire.produce(name, records, codec=source, producer_id=3, producer_epoch=0, base_sequence=base) == base
            )
        first, second = stored(served, name)
        assert first[0].codec == second[0].codec == codec
        assert first[1] == records
        assert [record.offset for record in second[1]] == [len(records) + record.offset for record in records]
        assert (second[0].producer_id, second[0].base_sequence) == (3, len(records))
        assert second[0].max_timestamp == records[-1].timestamp


def test_the_producers_codec_stays_where_the_topic_asks_for_none(served: Any, wire: Wire) -> None:
    wire.create("t", configs={"compression.type": "producer"})
    sent = build_batch(MANY, codec=SNAPPY)
    wire.produce_batch("t", sent)
    ((header, _),) = stored(served, "t")
    assert (header.codec, header.size) == (SNAPPY, len(sent))


def test_a_batch_in_the_topics_codec_is_not_packed_anew(served: Any, wire: Wire) -> None:
    wire.create("t", configs={"compression.type": "gzip", "compression.gzip.level": "9"})
    sent = build_batch(MANY, codec=GZIP, level=1)
    wire.produce_batch("t", sent)
    ((header, _),) = stored(served, "t")
    assert header.size == len(sent)


def test_levels_have_an_effect(served: Any, wire: Wire) -> None:
    chance = random.Random(1)
    records = [Record(0, NOW, b"k", bytes(chance.choices(b"abcdefgh", [9, 5, 3, 2, 1, 1, 1, 1], k=200_000)))]
    for codec, low, high in (("gzip", "1", "9"), ("zstd", "-7", "19"), ("lz4", "1", "12")):
        for level in (low, high):
            wire.create(codec + level, configs={"compression.type": codec, f"compression.{codec}.level": level})
            wire.produce(codec + level, records)
        assert stored(served, codec + high)[0][0].size < stored(served, codec + low)[0][0].size


def test_the_brokers_setting_is_the_default(serve: Callable[..., Any]) -> None:
    served = serve(compression_type="lz4")
    wire = served.wire()
    wire.create("t")
    wire.produce("t", FEW)
    assert stored(served, "t")[0][0].codec == LZ4


def test_duplicates_and_gaps_are_seen_before_and_after_packing(served: Any, wire: Wire) -> None:
    wire.create("t", configs={"compression.type": "zstd"})
    for records in (FEW, MANY):
        producer = {"producer_id": len(records), "producer_epoch": 0}
        first = wire.produce("t", records, base_sequence=0, **producer)
        assert wire.produce("t", records, base_sequence=0, **producer) == first
        gap = produce(wire, "t", build_batch(records, base_sequence=5000, **producer))
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [len(records) for _, records in stored(served, "t")] == [len(FEW), len(MANY)]


def test_a_batch_that_becomes_too_large_is_refused(served: Any, wire: Wire) -> None:
    wire.create("t", configs={"compression.type": "uncompressed", "max.message.bytes": "5000"})
    batch = build_batch(MANY, codec=ZSTD)
    assert len(batch) < 5000
    assert produce(wire, "t", batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert stored(served, "t") == []


@pytest.mark.parametrize("records", [FEW, MANY], ids=["few", "many"])
def test_records_that_do_not_fit_their_header_are_refused(served: Any, wire: Wire, records: list[Record]) -> None:
    wire.create("t", configs={"compression.type": "gzip"})
    batch = build_batch(records)
    broken = build_batch([*records[:-1], records[-1]._replace(value=b"")])
    broken[61] = (broken[61] + 2) & 0xFF  # the first record's length
    seal(broken, 0, len(broken))
    assert produce(wire, "t", broken).error_code == ErrorCode.CORRUPT_MESSAGE
    assert produce(wire, "t", batch).error_code == 0


def test_log_append_time_is_set_on_what_is_stored(served: Any, wire: Wire) -> None:
    wire.create("t", configs={"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"})
    answer = produce(wire, "t", build_batch(FEW))
    ((header, records),) = stored(served, "t")
    assert header.codec == GZIP
    assert {record.timestamp for record in records} == {answer.log_append_time_ms}


@pytest.mark.parametrize("records", [FEW, MANY], ids=["few", "many"])
def test_old_formats_are_packed_too(served: Any, wire: Wire, records: list[Record]) -> None:
    wire.create("t", configs={"compression.type": "zstd"})
    old = downconvert(build_batch([record._replace(headers=()) for record in records]), 1, limit=1 << 30)
    assert produce(wire, "t", old, version=2).error_code == 0
    ((header, found),) = stored(served, "t")
    assert header.codec == ZSTD
    assert [record.value for record in found] == [record.value for record in records]


def test_one_connections_batches_stay_in_order(served: Any, wire: Wire) -> None:
    wire.create("t", configs={"compression.type": "gzip"})
    sent = []
    for number in range(20):
        records = [record._replace(key=b"%d" % number) for record in (MANY if number % 3 else FEW)]
        partition = messages.ProduceRequest.Partition(index=0, records=build_batch(records))
        topic = messages.ProduceRequest.Topic(name="t", partition_data=[partition])
        sent.append(wire.send(messages.ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic]), 9))
    for correlation_id in sent:
        assert wire.receive("Produce", 9, correlation_id).responses[0].partition_responses[0].error_code == 0
    assert [records[0].key for _, records in stored(served, "t")] == [b"%d" % number for number in range(20)]
