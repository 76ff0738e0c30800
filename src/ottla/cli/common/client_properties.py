"""Settings of Java's Kafka clients in librdkafka's words.

Property files and `--producer-property` of the texts hold Java's names. Most are librdkafka's too; of the others each
has its counterpart here, or the reason why it cannot be kept, which the user is told. Nothing is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.cli.common.invocation import Misconfigured


def _same(value: str) -> str:
    return value


def _kilobytes(value: str) -> str:
    return str(max(1, int(value) // 1024))


def _assignors(value: str) -> str:
    """Java's class names as librdkafka's short ones."""
    known = {
        "RangeAssignor": "range",
        "RoundRobinAssignor": "roundrobin",
        "CooperativeStickyAssignor": "cooperative-sticky",
    }
    names = [one.strip().rpartition(".")[2] for one in value.split(",")]
    return ",".join(known.get(name, name) for name in names)


def _reset(value: str) -> str:
    return {"none": "error"}.get(value, value)


# Java's name: librdkafka's name, and how the value changes
RENAMED: dict[str, tuple[str, Callable[[str], str]]] = {
    "auto.offset.reset": ("auto.offset.reset", _reset),
    "buffer.memory": ("queue.buffering.max.kbytes", _kilobytes),
    "fetch.max.wait.ms": ("fetch.wait.max.ms", _same),
    "max.request.size": ("message.max.bytes", _same),
    "partition.assignment.strategy": ("partition.assignment.strategy", _assignors),
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", _same),
    "send.buffer.bytes": ("socket.send.buffer.bytes", _same),
}


# Java's class settings: what they may say, as the commands work with bytes and text anyway
CODERS = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")

WITHOUT_COUNTERPART = {
    "interceptor.classes": "Java's interceptors cannot run here",
    "metric.reporters": "Java's metric reporters cannot run here",
    "partitioner.class": "Java's partitioners cannot run here; librdkafka's `partitioner` can",
    "sasl.jaas.config": "give sasl.username and sasl.password",
    "ssl.keystore.location": "Java's key stores cannot be read; give ssl.certificate.location and ssl.key.location",
    "ssl.truststore.location": "Java's trust stores cannot be read; give ssl.ca.location",
}


def for_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """The settings for a librdkafka client; Misconfigured where one has no counterpart."""
    settings = {}
    for key, value in properties.items():
        if key in WITHOUT_COUNTERPART:
            raise Misconfigured(f"{key} has no counterpart: {WITHOUT_COUNTERPART[key]}")
        if key in CODERS:
            raise Misconfigured(f"{key} is set by the command's own options, not among the client's settings")
        name, change = RENAMED.get(key, (key, _same))
        try:
            settings[name] = change(value)
        except ValueError:
            raise Misconfigured(f"{key}={value} is illegal: must be a whole number") from None
    return settings
