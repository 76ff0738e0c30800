"""How the console consumer shows a record: Kafka's formatters by their class names, and the user's own.

    DefaultMessageFormatter    also DefaultFormatter; the parts that `print.*` asks for, then a line's end (A3 CO17)
    LoggingMessageFormatter    the same, and a line of a log on stderr with timestamp, key and value (CO14)
    NoOpMessageFormatter       nothing
    ChecksumMessageFormatter   a checksum of each record (CO15), as Kafka's clients give one since format 2: CRC-32C of
                               timestamp, size of the key and size of the value
    OffsetsMessageFormatter, GroupMetadataMessageFormatter, TransactionLogMessageFormatter: `coordinator_formatters`

A formatter of the user's own is a class on PYTHONPATH made without arguments: `configure(properties)` gets the
properties, `write_to(message, output)` writes one confluent_kafka.Message to a binary stream, `close()` ends it.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from ottla.cli.common.invocation import Misconfigured
from ottla.cli.console.classes import found
from ottla.cli.console.readers import is_true
from ottla.cli.console.serialization import Deserializer, deserializer

if TYPE_CHECKING:
    from confluent_kafka import Message

TIMESTAMP_TYPES = {1: "CreateTime", 2: "LogAppendTime"}
_SIZES = struct.Struct(">qii")


class Formatter(Protocol):
    def configure(self, properties: Mapping[str, str]) -> None: ...
    def write_to(self, message: Message, output: BinaryIO) -> None: ...
    def close(self) -> None: ...


class DefaultMessageFormatter:
    """The parts of a record that are wanted, with separators between them."""

    PARTS = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value")

    def configure(self, properties: Mapping[str, str]) -> None:
        self._parts = [
            getattr(self, f"_{part}")
            for part in self.PARTS
            if (is_true(properties, f"print.{part}") if f"print.{part}" in properties else part == "value")
        ]
        self._key_separator = properties.get("key.separator", "\t").encode()
        self._line_separator = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._deserialize_key = self._deserializer("key.deserializer", properties)
        self._deserialize_value = self._deserializer("value.deserializer", properties)
        self._deserialize_header = self._deserializer("headers.deserializer", properties)

    def write_to(self, message: Message, output: BinaryIO) -> None:
        if self._parts:
            output.write(self._key_separator.join([part(message) for part in self._parts]) + self._line_separator)

    def close(self) -> None:
        pass

    @staticmethod
    def _deserializer(name: str, properties: Mapping[str, str]) -> Deserializer | None:
        if not properties.get(name):
            return None
        return deserializer(properties[name], is_key=name.startswith("key"), option=name, properties=properties)

    def _shown(self, message: Message, data: bytes | None, code: Deserializer | None) -> bytes:
        if data is None:
            return self._null
        return data if code is None else code(message.topic() or "", data)

    def _timestamp(self, message: Message) -> bytes:
        return (_time_of(message) or "NO_TIMESTAMP").encode()

    def _partition(self, message: Message) -> bytes:
        return f"Partition:{message.partition()}".encode()

    def _offset(self, message: Message) -> bytes:
        return f"Offset:{message.offset()}".encode()

    def _delivery(self, message: Message) -> bytes:
        return b"Delivery:NOT_PRESENT"  # only share groups count deliveries

    def _epoch(self, message: Message) -> bytes:
        epoch = message.leader_epoch()
        return b"Epoch:NOT_PRESENT" if epoch is None else b"Epoch:%d" % epoch

    def _headers(self, message: Message) -> bytes:
        headers: Any = message.headers()
        if not headers:
            return b"NO_HEADERS"
        return self._headers_separator.join(
            [key.encode() + b":" + self._shown(message, value, self._deserialize_header) for key, value in headers]
        )

    def _key(self, message: Message) -> bytes:
        return self._shown(message, _bytes(message.key()), self._deserialize_key)

    def _value(self, message: Message) -> bytes:
        return self._shown(message, _bytes(message.value()), self._deserialize_value)


class LoggingMessageFormatter(DefaultMessageFormatter):
    """The default formatter, with a line on stderr for each record."""

    def write_to(self, message: Message, output: BinaryIO) -> None:
        super().write_to(message, output)
        moment = _time_of(message)
        key, value = _bytes(message.key()), _bytes(message.value())
        seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
        now = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
        sys.stderr.write(
            f"[{now},{milliseconds:03}] INFO {moment + ', ' if moment else ''}"
            f"key:{'null ' if key is None else key.decode(errors='replace') + ', '}"
            f"value:{'null' if value is None else value.decode(errors='replace')} (LoggingMessageFormatter)\n"
        )


class NoOpMessageFormatter:
    """Nothing: the records are only counted."""

    def configure(self, properties: Mapping[str, str]) -> None:
        pass

    def write_to(self, message: Message, output: BinaryIO) -> None:
        pass

    def close(self) -> None:
        pass


class ChecksumMessageFormatter:
    """A checksum for each record, behind the property `topic` where it is set."""

    def configure(self, properties: Mapping[str, str]) -> None:
        from ottla.protocol.batch import crc32c

        self._crc32c = crc32c
        self._topic = f"{properties['topic']}:" if "topic" in properties else ""

    def write_to(self, message: Message, output: BinaryIO) -> None:
        moment = _time_of(message)
        _, timestamp = message.timestamp()
        sizes = [-1 if data is None else len(data) for data in (_bytes(message.key()), _bytes(message.value()))]
        checksum = self._crc32c(_SIZES.pack(timestamp, *sizes))
        output.write(f"{self._topic}{moment + ', ' if moment else ''}checksum:{checksum}\n".encode())

    def close(self) -> None:
        pass


def _time_of(message: Message) -> str | None:
    kind, milliseconds = message.timestamp()
    return f"{TIMESTAMP_TYPES[kind]}:{milliseconds}" if kind in TIMESTAMP_TYPES else None


def _bytes(data: Any) -> bytes | None:
    """Keys and values as they are typed in confluent-kafka may be text; what a consumer gets never is."""
    return data if data is None or isinstance(data, bytes) else bytes(data)


FORMATTERS: dict[str, type] = {
    "DefaultMessageFormatter": DefaultMessageFormatter,
    "DefaultFormatter": DefaultMessageFormatter,
    "LoggingMessageFormatter": LoggingMessageFormatter,
    "NoOpMessageFormatter": NoOpMessageFormatter,
    "ChecksumMessageFormatter": ChecksumMessageFormatter,
}


def formatter(name: str, properties: Mapping[str, str]) -> Formatter:
    """The formatter of a class name, configured."""
    from ottla.cli.console import coordinator_formatters  # rarely wanted

    known = {**FORMATTERS, **coordinator_formatters.FORMATTERS}
    kind = known[name] if name in known else found(name, known, "--formatter")
    made: Formatter = kind()
    if not callable(getattr(made, "write_to", None)):
        raise Misconfigured(f"--formatter {name}: it has no write_to(message, output)")
    if hasattr(made, "configure"):
        made.configure(dict(properties))
    return made
