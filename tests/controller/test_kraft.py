"""Reading a KRaft metadata log that the tests write; those of a real Kafka are read in tests/apache_kafka."""

from pathlib import Path

import pytest

from ottla.controller.kraft import (
    ABORT,
    BEGIN,
    END,
    FRAME_VERSION,
    RECORDS,
    UnreadableMetadata,
    read_metadata,
    voters,
)
from ottla.protocol import codec, messages
from ottla.protocol.model import Message
from ottla.protocol.records import Record, build_batch

KINDS = {name: kind for kind, name in RECORDS.items()}
ID, OTHER = b"i" * 16, b"o" * 16


def framed(record: Message | int) -> bytes:
    """A record's value; a number is a type of record without a body."""
    if isinstance(record, int):
        return bytes([FRAME_VERSION, record, 0])
    version = 2 if type(record).__name__.startswith("Partition") else 0
    return bytes([FRAME_VERSION, KINDS[type(record).__name__], version]) + codec.encode(record, version)


def batch(offset: int, *said: Message | int) -> bytearray:
    records = [Record(offset + at, 0, None, framed(record)) for at, record in enumerate(said)]
    return build_batch(records, base_offset=offset, leader_epoch=4)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / f"{0:020d}.log"


def topic(name: str = "orders", topic_id: bytes = ID) -> Message:
    return messages.TopicRecord(name=name, topic_id=topic_id)


def partition(**values: object) -> Message:
    given = {"partition_id": 0, "topic_id": ID, "replicas": [1], "isr": [1], "leader": 1, "leader_epoch": 5} | values
    return messages.PartitionRecord(**given)  # type: ignore[arg-type]


def config(value: str | None) -> Message:
    return messages.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value=value)


def test_topics_come_partitions_change_and_topics_go(log: Path) -> None:
    change = messages.PartitionChangeRecord(
        partition_id=0, topic_id=ID, isr=[], leader=-1, eligible_leader_replicas=[1], last_known_elr=[1]
    )
    log.write_bytes(
        batch(0, topic(), partition(), topic("gone", OTHER), partition(topic_id=OTHER), config("9"))
        + batch(5, change, messages.RemoveTopicRecord(topic_id=OTHER))
    )
    found = read_metadata(log.parent)
    assert found.topics == {ID: "orders"}
    assert found.topic_configs("orders") == {"retention.ms": "9"}
    assert (found.partitions[ID][0].leader_epoch, found.partitions[ID][0].eligible) == (6, [1])
    assert (found.end_offset, found.epoch) == (7, 4)


def test_a_change_that_keeps_the_leader_keeps_its_epoch(log: Path) -> None:
    change = messages.PartitionChangeRecord(partition_id=0, topic_id=ID, directories=[OTHER])
    log.write_bytes(batch(0, topic(), partition(), change))
    found = read_metadata(log.parent).partitions[ID][0]
    assert (found.leader_epoch, found.leader, found.isr, found.directories) == (5, 1, [1], [OTHER])


def test_a_config_without_value_is_gone_and_configs_go_with_their_topic(log: Path) -> None:
    log.write_bytes(batch(0, topic(), config("9"), config(None)))
    assert read_metadata(log.parent).topic_configs("orders") == {}
    log.write_bytes(batch(0, topic(), config("9"), messages.RemoveTopicRecord(topic_id=ID), topic()))
    assert read_metadata(log.parent).topic_configs("orders") == {}


@pytest.mark.parametrize(("end", "there"), [([END], {ID: "orders"}), ([ABORT], {}), ([], {})])
def test_a_transaction_counts_when_it_was_ended(log: Path, end: list[int], there: dict[bytes, str]) -> None:
    log.write_bytes(batch(0, BEGIN, topic()) + batch(2, *end, 20))
    assert read_metadata(log.parent).topics == there


def test_the_newest_snapshot_and_the_log_behind_it_count(log: Path) -> None:
    log.with_name(f"{2:020d}-{1:010d}.checkpoint").write_bytes(batch(0, topic("older")))
    log.with_name(f"{3:020d}-{1:010d}.checkpoint").write_bytes(batch(0, topic()))
    log.write_bytes(batch(1, topic("older", OTHER)) + batch(3, topic("newer", OTHER)))
    assert read_metadata(log.parent).topics == {ID: "orders", OTHER: "newer"}


def test_a_torn_batch_at_the_end_never_was(log: Path) -> None:
    log.write_bytes((batch(0, topic()) + batch(1, topic("newer", OTHER)))[:-1])
    assert read_metadata(log.parent).topics == {ID: "orders"}


def test_damage_before_the_end_is_an_error(log: Path) -> None:
    data = batch(0, topic()) + batch(1, topic("newer", OTHER))
    data[70] ^= 1
    log.write_bytes(data)
    with pytest.raises(UnreadableMetadata, match="position 0"):
        read_metadata(log.parent)


def test_a_hole_between_snapshot_and_log_is_an_error(log: Path) -> None:
    log.write_bytes(batch(7, topic()))
    with pytest.raises(UnreadableMetadata, match="offsets from 0 to 7 are missing"):
        read_metadata(log.parent)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"\x02\x02\x00", "frame version 2"),
        (b"\x01\x63\x00", "type 99"),
        (b"\x01\x02\x09", "TopicRecord"),
        (b"", "0 bytes"),
    ],
)
def test_records_of_another_kafka_are_refused(log: Path, value: bytes, told: str) -> None:
    log.write_bytes(build_batch([Record(0, 0, None, value)]))
    with pytest.raises(UnreadableMetadata, match=told):
        read_metadata(log.parent)


def test_voters_are_those_of_the_quorum_state(tmp_path: Path) -> None:
    assert voters(tmp_path) == set()
    (tmp_path / "quorum-state").write_text('{"currentVoters":[{"voterId":1},{"voterId":3}],"data_version":0}')
    assert voters(tmp_path) == {1, 3}
    (tmp_path / "quorum-state").write_text("[")
    with pytest.raises(UnreadableMetadata, match="not what Kafka writes"):
        voters(tmp_path)
