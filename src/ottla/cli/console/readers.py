"""How the console producer makes records of what it reads (Kafka's LineMessageReader; A3 CP1, CP8-CP11).

Each line is a record: `[headers DELIMITER] [key SEPARATOR] value`, taken apart at the first occurrence. Properties:

    parse.key, parse.headers            whether a line holds them: false
    key.separator, headers.delimiter    what stands behind them: a tab
    headers.separator                   between headers, a regular expression in Kafka, plain text here: ,
    headers.key.separator               between a header's key and value: :
    null.marker                         a key, value, header value or list of headers that equals it is null
    ignore.error                        whether a line without its separator is a value alone: false, it ends the run

A reader of the user's own (`--line-reader package.module.Class`) is made without arguments; `configure(properties)`
gets the properties and the topic, `read_records(stream)` yields `Record`s of a binary stream, `close()` ends it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple, Protocol

from ottla.cli.common.invocation import Failure, Misconfigured
from ottla.cli.console.classes import found


class Record(NamedTuple):
    """What a reader hands to the producer; topic, partition and timestamp where the defaults will not do."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    topic: str | None = None
    partition: int | None = None
    timestamp: int | None = None


class Reader(Protocol):
    def configure(self, properties: Mapping[str, str]) -> None: ...
    def read_records(self, stream: BinaryIO) -> Iterator[Record]: ...
    def close(self) -> None: ...


class Unreadable(Failure):
    """A line that is no record."""


class LineMessageReader:
    """Lines as records; see the module's head."""

    def __init__(self, *, prompt: bool | None = None) -> None:
        self._prompt = sys.stdin.isatty() and sys.stdout.isatty() if prompt is None else prompt
        self._line = 0

    def configure(self, properties: Mapping[str, str]) -> None:
        def text(name: str, default: str) -> bytes:
            value = properties.get(name, default)
            if not value:
                raise Misconfigured(f"{name} must not be empty")
            return value.encode()

        self._parse_key = is_true(properties, "parse.key")
        self._parse_headers = is_true(properties, "parse.headers")
        self._ignore_error = is_true(properties, "ignore.error")
        self._key_separator = text("key.separator", "\t")
        self._headers_delimiter = text("headers.delimiter", "\t")
        self._headers_separator = text("headers.separator", ",")
        self._headers_key_separator = text("headers.key.separator", ":")
        marker = properties.get("null.marker")
        self._null = None if marker is None else marker.encode()
        separators = {
            "headers.delimiter": self._headers_delimiter,
            "headers.separator": self._headers_separator,
            "headers.key.separator": self._headers_key_separator,
        }
        names = list(separators)
        for at, one in enumerate(names):
            for other in names[at + 1 :]:
                if separators[one] == separators[other]:
                    raise Misconfigured(f"{one} and {other} may not be equal")
        for name, separator in {"key.separator": self._key_separator, **separators}.items():
            if separator == self._null:
                raise Misconfigured(f"null.marker and {name} may not be equal")

    def read_records(self, stream: BinaryIO) -> Iterator[Record]:
        self._line = 0
        while True:
            if self._prompt:
                sys.stdout.write(">")
                sys.stdout.flush()
            line = stream.readline()
            if not line:
                return
            self._line += 1
            yield self._record(line.removesuffix(b"\n").removesuffix(b"\r"))

    def close(self) -> None:
        if self._prompt:
            sys.stdout.write("\n")

    def _record(self, line: bytes) -> Record:
        headers, rest = self._cut(self._parse_headers, line, line, self._headers_delimiter, "headers delimiter")
        key, value = self._cut(self._parse_key, rest, line, self._key_separator, "key separator")
        return Record(
            None if value == self._null else value,
            None if key == self._null else key,
            [] if headers is None or headers == self._null else list(self._headers(headers)),
        )

    def _cut(self, wanted: bool, text: bytes, line: bytes, mark: bytes, name: str) -> tuple[bytes | None, bytes]:
        """What stands before a mark, None where nothing does, and the rest."""
        if not wanted:
            return None, text
        before, found_mark, rest = text.partition(mark)
        if found_mark:
            return before, rest
        if not self._ignore_error:
            raise Unreadable(f"No {name} found on line number {self._line}: '{line.decode(errors='replace')}'")
        return None, text

    def _headers(self, text: bytes) -> Iterator[tuple[str, bytes | None]]:
        pairs = text.split(self._headers_separator)
        while len(pairs) > 1 and not pairs[-1]:  # as Java splits
            pairs.pop()
        for pair in pairs:
            key, mark, value = pair.partition(self._headers_key_separator)
            if not mark and not self._ignore_error:
                raise Unreadable(
                    f"No header key separator found in pair '{pair.decode(errors='replace')}' "
                    f"on line number {self._line}"
                )
            if key == self._null:
                raise Unreadable(
                    f"Header keys should not be equal to the null marker '{key.decode()}' as they can't be null"
                )
            yield key.decode(errors="replace"), value if mark and value != self._null else None


READERS = {"LineMessageReader": LineMessageReader}


def is_true(properties: Mapping[str, str], name: str) -> bool:
    """Whether a property says true, as Java reads it: anything else is false."""
    return properties.get(name, "").strip().lower() == "true"


def reader(name: str, properties: Mapping[str, str]) -> Reader:
    """The reader of a class name, configured."""
    kind = found(name, READERS, "--line-reader")
    made: Reader = kind()
    if not callable(getattr(made, "read_records", None)):
        raise Misconfigured(f"--line-reader {name}: it has no read_records(stream)")
    if hasattr(made, "configure"):
        made.configure(dict(properties))
    return made
