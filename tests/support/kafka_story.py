"""What happened on a real Apache Kafka, and what its clients saw: the material of the tests in tests/apache_kafka.

    1. ottla writes a topic in every codec, over several segments, and stops.
    2. A Kafka gets topics of all kinds (`_fill`), is looked at and stopped: `clean`.
    3. ottla takes its data over, writes some records and gives them back.
    4. ottla's segments are put into one of its partitions. It starts again, serves them, gets some more records, is
       looked at and killed: `killed`.

Each state is a copy of the data directory together with what a client saw in it.
"""

from __future__ import annotations

import shutil
import subprocess
from base64 import b85encode
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from ottla.cli import main
from ottla.protocol import messages
from ottla.protocol.records import Record, build_batch
from ottla.testing import BrokerProcess
from support.apache_kafka import ApacheKafka
from support.consumer_wire import ConsumerMember
from support.group_wire import commit
from support.wire import Wire

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OLD = 1_700_000_000_000
PATIENCE = 30.0
SEGMENT_FILES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex", "leader-epoch-checkpoint")

TOPICS = {
    "plain": NewTopic("plain", 2, 1, config={"retention.ms": "-1", "segment.bytes": "1048576"}),
    "append-time": NewTopic("append-time", 1, 1, config={"message.timestamp.type": "LogAppendTime"}),
    "compacted": NewTopic(
        "compacted",
        1,
        1,
        config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"},
    ),
    "transactions": NewTopic("transactions", 1, 1),
    "changed": NewTopic("changed", 3, 1, config={"max.message.bytes": "2000000", "retention.bytes": "1000000"}),
    "begun-later": NewTopic("begun-later", 1, 1),
    "retried": NewTopic("retried", 1, 1, config={"retention.ms": "-1"}),
    "from-ottla": NewTopic("from-ottla", 1, 1, config={"retention.ms": "-1"}),
    "gone": NewTopic("gone", 1, 1),
}


class Seen(NamedTuple):
    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None


class View(NamedTuple):
    """All that a client sees of a cluster's topics."""

    records: dict[tuple[str, int], list[Seen]]
    ranges: dict[tuple[str, int], tuple[int, int]]  # low and high watermark
    configs: dict[str, dict[str, str]]  # the topics' own
    ids: dict[str, str]
    cluster_id: str


@dataclass
class State:
    directory: Path
    view: View
    retried: list[tuple[int, bytes]]  # first offset and bytes of batches of an idempotent producer
    next_batch: bytes  # the one that follows them
    producer_id: int


@dataclass
class Story:
    ottla: Path  # a data directory that ottla wrote
    ottla_records: list[Seen]
    clean: State
    killed: State


def tell(directory: Path) -> Story:
    ottla_records = _write_with_ottla(directory / "ottla")
    kafka = ApacheKafka(directory)
    try:
        kafka.start()
        _fill(kafka)
        batches, producer_id = _write_idempotently(kafka, 0)
        clean_view = look(kafka.bootstrap)
        kafka.stop()
        clean = _copy(kafka.data, directory / "clean")
        _lend_to_ottla(kafka.data)
        put_segments(directory / "ottla" / "from-ottla-0", kafka.data / "from-ottla-0")
        kafka.start()
        _write_more(kafka)
        more, producer_id = _write_idempotently(kafka, len(batches), producer_id)
        killed_view = look(kafka.bootstrap)
        kafka.kill()
        killed = _copy(kafka.data, directory / "killed")
    finally:
        kafka.kill()
    return Story(
        directory / "ottla",
        ottla_records,
        State(clean, clean_view, batches, _batch(producer_id, len(batches)), producer_id),
        State(killed, killed_view, batches + more, _batch(producer_id, len(batches + more)), producer_id),
    )


def _lend_to_ottla(data: Path) -> None:
    assert main.run(["adopt", "--yes", str(data)]) == 0
    with BrokerProcess(data) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for at in range(20):
            producer.produce("begun-later", f"lent {at}")
        _flush(producer)
        assert broker.stop() == 0
    assert main.run(["adopt", "--undo", "--yes", str(data)]) == 0


def _copy(source: Path, to: Path) -> Path:
    # Kafka sets 10 MB aside for each index of a segment that is written to: holes must stay holes.
    subprocess.run(["cp", "-a", "--sparse=always", str(source), str(to)], check=True)
    return to


def put_segments(source: Path, to: Path) -> None:
    for path in to.iterdir():
        if path.name.endswith(SEGMENT_FILES):
            path.unlink()
    for path in source.iterdir():
        if path.name.endswith(SEGMENT_FILES):
            shutil.copy(path, to)


# -- writing -------------------------------------------------------------------------------------------------------


def _write_with_ottla(directory: Path) -> list[Seen]:
    with BrokerProcess(directory) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        config = {"segment.bytes": "1048576", "index.interval.bytes": "1000", "retention.ms": "-1"}
        _wait(admin.create_topics([NewTopic("from-ottla", 1, 1, config=config)]))
        write_codecs(broker.bootstrap, {"from-ottla": 1})
        records = look(broker.bootstrap).records["from-ottla", 0]
        assert broker.stop() == 0
    return records


def write_codecs(bootstrap: str, topics: dict[str, int], count: int = 300) -> None:
    """Records in all codecs, with keys and headers and without, idempotent and not, to topics of so many partitions."""
    noise = Random(7)  # which no codec makes smaller, so that segments fill
    for number, codec in enumerate(CODECS):
        for idempotent in (True, False):
            producer = Producer(
                {
                    "bootstrap.servers": bootstrap,
                    "compression.type": codec,
                    "enable.idempotence": idempotent,
                    "batch.num.messages": 30,
                    "linger.ms": 20,
                }
            )
            for at in range(count):
                value = None if at == 7 else f"{codec} {at} größe ".encode() + b85encode(noise.randbytes(800))
                for topic, partitions in topics.items():
                    producer.produce(
                        topic,
                        value,
                        None if at % 3 == 0 else f"key {at}",
                        at % partitions,
                        timestamp=OLD + 1000 * (number * count + at),
                        headers=[("source", b"\xff"), ("größe", None)] if at % 5 == 0 else None,
                    )
            _flush(producer)


def _fill(kafka: ApacheKafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    _wait(admin.create_topics(list(TOPICS.values())))
    write_codecs(kafka.bootstrap, {"plain": 2, "append-time": 1})
    _write_compacted(kafka)
    _write_transactions(kafka.bootstrap)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for at in range(60):
        producer.produce("begun-later", f"{at}")
        producer.produce("gone", f"{at}")
        producer.produce("changed", f"{at}", partition=at % 2)
    _flush(producer)
    _wait(admin.delete_records([TopicPartition("begun-later", 0, 17)]))
    _wait(admin.delete_topics(["gone"]))
    changes = [
        ConfigEntry("max.message.bytes", "3000000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("retention.bytes", "", incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    ]
    resource = ConfigResource(ResourceType.TOPIC, "changed", incremental_configs=changes)
    _wait(admin.incremental_alter_configs([resource]))
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("plain", 0, 5)], asynchronous=False)
    consumer.close()
    _join_a_consumer_group(kafka.port)


def _join_a_consumer_group(port: int) -> None:
    """Two members of KIP-848, who read by a pattern and by name, and have not left when Kafka ends."""
    wire = Wire("127.0.0.1", port)
    one, two = (ConsumerMember(wire, "newcomers", id=name) for name in ("one", "two"))
    patience = monotonic() + PATIENCE
    while one.join(subscribed_topic_names=[], subscribed_topic_regex="pla.*").error_code:
        assert monotonic() < patience, "Kafka has no coordinator"
    two.topics = ["plain"]
    assert two.join().error_code == 0
    while sorted(one.partitions + two.partitions) != [0, 1] or one.partitions == [] or two.partitions == []:
        assert monotonic() < patience, "Kafka has not given each one a partition"
        for member in (one, two):
            member.beat(topic_partitions=member.owning())
    as_member = {"member_id": one.id, "generation_id_or_member_epoch": one.epoch}
    assert commit(wire, "newcomers", {("plain", one.partitions[0]): 7}, **as_member) == [0]
    wire.close()


def _write_compacted(kafka: ApacheKafka) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0})
    for number in range(3):
        for at in range(40):
            producer.produce("compacted", f"{number}", f"key {at}")
        _flush(producer)
        sleep(0.11)  # over segment.ms: the next record opens a segment
    producer.produce("compacted", None, "key 3")
    _flush(producer)
    checkpoint = kafka.data / "cleaner-offset-checkpoint"
    deadline = monotonic() + PATIENCE
    while "compacted" not in checkpoint.read_text():
        assert monotonic() < deadline, "Kafka has not compacted the topic"
        sleep(0.05)


def _write_transactions(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "payments"})
    producer.init_transactions(PATIENCE)
    for number in range(4):
        producer.begin_transaction()
        for at in range(3):
            producer.produce("transactions", f"{number}.{at}")
        _flush(producer)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()


def _write_more(kafka: ApacheKafka) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for at in range(100):
        producer.produce("plain", f"later {at}", partition=at % 2)
        producer.produce("from-ottla", f"later {at}")
    _flush(producer)


def _batch(producer_id: int, number: int) -> bytes:
    """The batch of this number of a producer that writes three records each time."""
    records = [Record(at, OLD + number, None, f"{number}.{at}".encode()) for at in range(3)]
    return bytes(build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=3 * number))


def _write_idempotently(kafka: ApacheKafka, first: int, producer_id: int = -1) -> tuple[list[tuple[int, bytes]], int]:
    wire = Wire("127.0.0.1", kafka.port)
    if producer_id < 0:
        producer_id = wire.call(messages.InitProducerIdRequest(transactional_id=None), 4).producer_id
    batches = [_batch(producer_id, first + number) for number in range(2)]
    written = [(wire.produce_batch("retried", batch), batch) for batch in batches]
    wire.close()
    return written, producer_id


def _flush(producer: Producer) -> None:
    assert producer.flush(PATIENCE) == 0


def _wait(futures: dict[object, object]) -> None:
    for future in futures.values():
        future.result(PATIENCE)  # type: ignore[attr-defined]


# -- reading -------------------------------------------------------------------------------------------------------


def look(bootstrap: str) -> View:
    """Everything in all topics that clients make."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    metadata = admin.list_topics(timeout=PATIENCE)
    names = sorted(name for name in metadata.topics if not name.startswith("__"))
    every = [(name, index) for name in names for index in metadata.topics[name].partitions]
    records, ranges = read_all(bootstrap, every)
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    configs = {}
    for resource, future in admin.describe_configs(resources).items():
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        configs[resource.name] = {key: one.value for key, one in future.result(PATIENCE).items() if one.source == own}
    described = admin.describe_topics(TopicCollection(names))
    ids = {name: str(future.result(PATIENCE).topic_id) for name, future in described.items()}
    return View(records, ranges, configs, ids, metadata.cluster_id)


def read_all(
    bootstrap: str, every: Iterable[tuple[str, int]], isolation: str = "read_uncommitted"
) -> tuple[dict[tuple[str, int], list[Seen]], dict[tuple[str, int], tuple[int, int]]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for topic, index in every])
    records: dict[tuple[str, int], list[Seen]] = {key: [] for key in every}
    ended: set[tuple[str, int]] = set()
    deadline = monotonic() + PATIENCE
    while len(ended) < len(records):
        assert monotonic() < deadline, f"no end of {records.keys() - ended}"
        for message in consumer.consume(1000, 0.2):
            key = message.topic(), message.partition()
            error = message.error()
            if error is None:
                records[key].append(
                    Seen(message.offset(), message.timestamp(), message.key(), message.value(), message.headers())
                )
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(key)
            else:
                raise AssertionError(f"{key}: {error}")
    ranges = {key: consumer.get_watermark_offsets(TopicPartition(*key), PATIENCE) for key in records}
    consumer.close()
    return records, ranges
