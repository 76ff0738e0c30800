"""ottla and Apache Kafka 4.3 answer requests about settings alike: the same errors, sources, synonyms and names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest

from ottla.protocol import messages
from ottla.testing import BrokerProcess
from support.apache_kafka import ApacheKafka, reason_to_skip
from support.settings import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    LOGGER,
    METRICS,
    SET,
    SUBTRACT,
    TOPIC,
    alter,
    describe,
    replace,
)
from support.wire import TIMEOUT, Wire

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
SIZE, POLICY = "message.max.bytes", "log.cleanup.policy"

CHANGES: list[tuple[int, str, list[tuple[int, str, str | None]]]] = [
    (BROKER, "1", [(SET, SIZE, "2000000")]),
    (BROKER, "", [(SET, SIZE, "2000000")]),
    (BROKER, "2", [(SET, SIZE, "2000000")]),
    (BROKER, "x", [(SET, SIZE, "2000000")]),
    (BROKER, "-1", [(SET, SIZE, "2000000")]),
    (BROKER, "1", [(SET, "num.partitions", "3")]),
    (BROKER, "", [(SET, "num.partitions", "3")]),
    (BROKER, "", [(SET, "listeners", "PLAINTEXT://:1")]),
    (BROKER, "1", [(SET, "ssl.keystore.password", "x")]),
    (BROKER, "1", [(SET, "log.retention.hours", "2")]),
    (BROKER, "1", [(SET, "log.roll.hours", "2")]),
    (BROKER, "1", [(SET, "log.flush.scheduler.interval.ms", "2")]),
    (BROKER, "1", [(APPEND, SIZE, "5")]),
    (BROKER, "1", [(APPEND, POLICY, "compact")]),
    (BROKER, "1", [(SUBTRACT, POLICY, "delete")]),
    (BROKER, "1", [(DELETE, POLICY, None)]),
    (BROKER, "1", [(DELETE, "num.partitions", None)]),
    (BROKER, "1", [(DELETE, "num.io.threads", None)]),
    (BROKER, "1", [(DELETE, SIZE, "junk")]),
    (BROKER, "1", [(SET, SIZE, None)]),
    (BROKER, "1", [(SET, SIZE, "1"), (SET, SIZE, "2")]),
    (BROKER, "1", [(7, SIZE, "1")]),
    (BROKER, "1", [(SET, "log.cleaner.threads", "2")]),
    (BROKER, "1", [(SET, "background.threads", "6")]),
    (BROKER, "", [(SET, "num.recovery.threads.per.data.dir", "3")]),
    (BROKER, "1", [(SET, "max.connections.per.ip.overrides", "127.0.0.1:500")]),
    (LOGGER, "1", [(SET, "root", "LOUD")]),
    (LOGGER, "1", [(SET, "root", "info")]),
    (LOGGER, "1", [(SET, "nope.logger", "INFO")]),
    (LOGGER, "1", [(DELETE, "root", None)]),
    (LOGGER, "1", [(APPEND, "root", "INFO")]),
    (LOGGER, "2", [(SET, "root", "INFO")]),
    (LOGGER, "", [(SET, "root", "INFO")]),
    (LOGGER, "x", [(SET, "root", "INFO")]),
    (LOGGER, "1", [(SET, "root", "WARN")]),
    (METRICS, "", [(SET, "interval.ms", "1000")]),
    (METRICS, "m", [(SET, "interval.ms", "1000")]),
    (METRICS, "m", [(SET, "interval.ms", "x")]),
    (METRICS, "m", [(SET, "metrics", "org.apache.kafka.producer.,*")]),
    (METRICS, "m", [(SET, "match", "client_id=a.*,client_software_name=x")]),
    (METRICS, "m", [(SET, "match", " client_id = a.* , client_software_name=x")]),
    (METRICS, "m", [(SET, "match", "")]),
    (METRICS, "m", [(SET, "match", "client_id")]),
    (METRICS, "m", [(SET, "match", "client_id=")]),
    (METRICS, "m", [(SET, "match", "client_id=a=b")]),
    (METRICS, "m", [(SET, "match", "client_id=[")]),
    (METRICS, "m", [(SET, "match", "nope=a")]),
    (METRICS, "m", [(APPEND, "interval.ms", "5")]),
    (METRICS, "empty", []),
    (GROUP, "", [(SET, SESSION, "46000")]),
    (GROUP, "g", [(SET, SESSION, "46000")]),
    (GROUP, "g", [(SET, SESSION, "1")]),
    (GROUP, "g", [(SET, SESSION, "70000")]),
    (GROUP, "g", [(SET, SESSION, "x")]),
    (GROUP, "g", [(SET, SESSION, "-1")]),
    (GROUP, "g", [(SET, HEARTBEAT, "1")]),
    (GROUP, "g", [(SET, HEARTBEAT, "16000")]),
    (GROUP, "g", [(SET, HEARTBEAT, "6000")]),
    (GROUP, "g", [(SET, "nope", "1")]),
    (GROUP, "g", [(APPEND, SESSION, "1")]),
    (TOPIC, "", [(SET, "retention.ms", "1")]),
    (TOPIC, "nope", [(SET, "retention.ms", "1")]),
    (TOPIC, "a b", [(SET, "retention.ms", "1")]),
    (TOPIC, "t", [(SET, "retention.ms", "x")]),
    (TOPIC, "t", [(SET, "nope", "x")]),
    (TOPIC, "t", [(APPEND, "retention.ms", "5")]),
    (TOPIC, "t", [(APPEND, "nope", "5")]),
    (TOPIC, "t", [(SUBTRACT, "cleanup.policy", "delete")]),
    (TOPIC, "t", [(SET, "retention.ms", "1000000")]),
    (0, "t", [(SET, "retention.ms", "1")]),
    (99, "t", [(SET, "retention.ms", "1")]),
]

# Where ottla differs on purpose (docs/choices.md): what Kafka says, what ottla says.
DIFFERENT: list[tuple[int, str, tuple[int, str, str | None], int, int]] = [
    (BROKER, "1", (SET, SIZE, "x"), 42, 40),
    (BROKER, "", (SET, SIZE, "-5"), 42, 40),
    (BROKER, "1", (SET, "max.connections.per.ip.overrides", "nope"), 42, 40),
    (BROKER, "1", (SET, "max.connections", "0"), 42, 40),
    (BROKER, "1", (SET, "no.such.key", "3"), 0, 40),
    (BROKER, "1", (DELETE, "no.such.key", None), 0, 40),
    (BROKER, "1", (SET, "num.io.threads", "9"), 0, 42),
    (METRICS, "m", (SET, "interval.ms", "99"), 42, 40),
    (METRICS, "m", (SET, "nope", "1"), 42, 40),
    (METRICS, "m", (APPEND, "metrics", "org.a."), 40, 0),
    (GROUP, "g", (SET, "share.session.timeout.ms", "46000"), 0, 40),
    (TOPIC, "t", (DELETE, "nope", None), 0, 40),
    (TOPIC, "t", (7, "retention.ms", "1"), -1, 42),
]

REPLACEMENTS: list[tuple[int, str, dict[str, str | None]]] = [
    (BROKER, "1", {"log.segment.bytes": "2000000"}),
    (BROKER, "1", {"num.partitions": "5"}),
    (BROKER, "1", {"log.segment.bytes": None}),
    (BROKER, "2", {}),
    (LOGGER, "1", {"root": "INFO"}),
    (METRICS, "m", {"interval.ms": "5000"}),
    (METRICS, "n", {"match": "x"}),
    (GROUP, "g", {SESSION: "47000"}),
    (TOPIC, "t", {"index.interval.bytes": "5000"}),
    (TOPIC, "nope", {}),
]

DESCRIBED: list[tuple[int, str, list[str]]] = [
    (BROKER, "1", [SIZE, "log.retention.ms", "log.retention.hours", "compression.type", "num.partitions", POLICY]),
    (BROKER, "1", ["log.segment.bytes", "log.roll.ms", "log.flush.interval.ms", "nope"]),
    (BROKER, "", [SIZE, "compression.type", "log.segment.bytes"]),
    (BROKER, "2", [SIZE]),
    (BROKER, "x", [SIZE]),
    (TOPIC, "t", ["index.interval.bytes", "retention.ms", "compression.type", "max.message.bytes", "nope"]),
    (TOPIC, "nope", []),
    (TOPIC, "a b", []),
    (TOPIC, "", []),
    (LOGGER, "1", ["root", "nope"]),
    (LOGGER, "2", []),
    (LOGGER, "", []),
    (METRICS, "m", []),
    (METRICS, "unknown", []),
    (METRICS, "m", ["match"]),
    (METRICS, "", []),
    (GROUP, "g", [SESSION, HEARTBEAT, "nope"]),
    (GROUP, "unknown", [SESSION]),
    (GROUP, "", []),
    (0, "t", []),
    (99, "t", []),
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wire, Wire]]:
    """Kafka and ottla, each with a topic."""
    reason = reason_to_skip()
    if reason is not None:
        pytest.skip(reason)
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"))
    with BrokerProcess(overrides={"node.id": "1", "log.cleaner.backoff.ms": "100"}) as ottla:
        kafka.start()
        try:
            wires = Wire("127.0.0.1", kafka.port), Wire("127.0.0.1", ottla.port)
            for wire in wires:
                wire.create("t")
            yield wires
            for wire in wires:
                wire.close()
        finally:
            kafka.kill()


def until(holds: Callable[[], bool]) -> None:
    """Kafka's brokers follow their controller a little later."""
    deadline = monotonic() + TIMEOUT
    while not holds():
        assert monotonic() < deadline, "it did not come true in time"


def shown(wire: Wire, type: int, name: str, keys: list[str]) -> Any:
    result = describe(wire, type, name, *keys, include_synonyms=True)
    return result.error_code, {
        row.name: (
            row.value,
            row.config_source,
            row.config_type,
            row.read_only,
            row.is_sensitive,
            [(one.name, one.value, one.source) for one in row.synonyms],
        )
        for row in result.configs
    }


def test_both_take_and_refuse_the_same_and_show_it_alike(both: tuple[Wire, Wire]) -> None:
    kafka, ottla = both
    for type, name, entries in CHANGES:
        said = alter(kafka, type, name, *entries)
        assert alter(ottla, type, name, *entries)[0] == said[0], (type, name, entries, said)
    for type, name, entry, kafkas, ottlas in DIFFERENT:
        assert alter(kafka, type, name, entry, validate_only=True)[0] == kafkas, (type, name, entry)
        assert alter(ottla, type, name, entry, validate_only=True)[0] == ottlas, (type, name, entry)
    for type, name, configs in REPLACEMENTS:
        assert replace(kafka, type, name, configs) == replace(ottla, type, name, configs), (type, name, configs)
    for wire in both:
        alter(wire, BROKER, "", (SET, "log.retention.ms", "1000000"), (SET, "compression.type", "zstd"))
        alter(wire, BROKER, "1", (SET, "log.retention.ms", "2000000"), (SET, POLICY, "compact"))
        until(lambda wire=wire: shown(wire, BROKER, "1", [POLICY])[1][POLICY][:2] == ("compact", 2))  # type: ignore[misc]
    for type, name, keys in DESCRIBED:
        assert shown(ottla, type, name, keys) == shown(kafka, type, name, keys), (type, name, keys)


def test_both_list_the_same_resources(both: tuple[Wire, Wire]) -> None:
    def listed(wire: Wire, version: int, *types: int) -> tuple[int, set[tuple[int, str]]]:
        reply = wire.call(messages.ListConfigResourcesRequest(resource_types=list(types)), version)
        return reply.error_code, {(one.resource_type, one.resource_name) for one in reply.config_resources}

    for wire in both:
        for name in ("m", "listed"):
            alter(wire, METRICS, name, (SET, "interval.ms", "1000"))
        alter(wire, GROUP, "g", (SET, SESSION, "46000"))
        until(lambda wire=wire: listed(wire, 1, METRICS, GROUP)[1] >= {(METRICS, "listed"), (GROUP, "g")})  # type: ignore[misc]
    kafka, ottla = both
    for version in (0, 1):
        for types in ([], [METRICS], [TOPIC], [BROKER], [LOGGER], [GROUP], [TOPIC, GROUP], [99], [0]):
            assert listed(kafka, version, *types) == listed(ottla, version, *types), (version, types)
