"""Requests of every api and version that a broker serves, and what chance makes of them."""

from __future__ import annotations

import random
import struct
from typing import Any

from ottla.broker import handlers  # noqa: F401  every handler registers itself
from ottla.broker.dispatch import ROUTES
from ottla.protocol.apis import API_KEYS
from ottla.protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.protocol.legacy import downconvert
from ottla.protocol.model import message_class
from ottla.protocol.schema import Field
from support.requests import batch, frame_of

READING = {API_KEYS[name] for name in ("Fetch", "ListOffsets", "Metadata", "OffsetForLeaderEpoch", "DescribeConfigs")}
INTERESTING = (0, 1, 2, 3, 14, 17, 126, 127, 128, 129, 254, 255)
SIZES = (0, 1, 7, 8, 9, -1, -(2**31), 2**31 - 1, 100_000_000, 104_857_600, 104_857_601)


class Mutants:
    """Frames from a seed: the same seed, the same frames. Requests speak of the topics that are named to it."""

    def __init__(self, seed: int, topics: list[str], topic_ids: list[bytes], read_only: list[str]) -> None:
        self.chance = random.Random(seed)
        self._topics, self._ids, self._read_only = topics, topic_ids, read_only
        pairs = [
            (route.name, version)
            for route in sorted(ROUTES.values(), key=lambda route: route.api_key)
            for version in range(route.lowest, route.highest + 1)
        ]
        self.valid = [self._request(name, version) for name, version in pairs for _ in range(3)]

    def next(self) -> bytes:
        """Bytes to send: a frame with its size, damaged in one way or another.

        What is only to be read is never named in a request that writes, not even by mistake.
        """
        while True:
            made = self._next()
            if struct.unpack_from(">h", made.ljust(6), 4)[0] in READING or not any(
                name.encode() in made for name in self._read_only
            ):
                return made

    def _next(self) -> bytes:
        chance = self.chance
        frame = bytearray(chance.choice(self.valid))
        kind = chance.randrange(10)
        if kind == 0:
            del frame[chance.randrange(len(frame)) :]
        elif kind == 1:  # the head of one request, the tail of another
            other = chance.choice(self.valid)
            frame[chance.randrange(len(frame)) :] = other[chance.randrange(len(other)) :]
        elif kind == 2:
            frame[0:2] = struct.pack(">h", chance.choice((-1, 2, 5, 99, 32767, chance.randrange(0, 90))))
        elif kind == 3:
            frame[2:4] = struct.pack(">h", chance.choice((-1, 5, 20, 32767, -32768)))
        elif kind == 4:
            frame = bytearray(chance.randbytes(chance.randrange(200)))
        else:
            for _ in range(chance.choice((1, 1, 2, 4, 16))):
                at = chance.randrange(len(frame))
                match chance.randrange(4):
                    case 0:
                        frame[at] ^= 1 << chance.randrange(8)
                    case 1:
                        frame[at] = chance.choice(INTERESTING)
                    case 2:
                        frame[at : at + 4] = struct.pack(">i", chance.choice(SIZES))
                    case _:
                        frame[at:at] = chance.randbytes(chance.randrange(1, 9))
        size = len(frame)
        if kind == 9:
            size = chance.choice((*SIZES, size - 1, size + 1, size + 1000))
        return struct.pack(">i", size) + frame

    def _request(self, name: str, version: int) -> bytes:
        cls = message_class(name + "Request")
        message = self._struct(cls, cls, version, name)
        return frame_of(message, version, self.chance.choice((None, "", "client")))

    def _struct(self, cls: Any, part: Any, version: int, api: str) -> Any:
        return part(**{f.name: self._field(cls, f, version, api) for f in part.STRUCT.fields if f.present(version)})

    def _field(self, cls: Any, field: Field, version: int, api: str) -> Any:
        chance = self.chance
        if field.nullable_in(version) and chance.random() < 0.2:
            return None

        def one() -> Any:
            if field.struct is not None:
                return self._struct(cls, getattr(cls, field.struct.name), version, api)
            return self._scalar(field, version, api)

        return [one() for _ in range(chance.choice((0, 1, 1, 2)))] if field.array else one()

    def _scalar(self, field: Field, version: int, api: str) -> Any:
        chance = self.chance
        match field.type:
            case "bool":
                return field.name == "validate_only" or chance.random() < 0.5
            case "float64":
                return chance.random()
            case "uuid":
                return chance.choice((*self._ids, bytes(16), chance.randbytes(16)))
            case "records":
                return self._records(version)
            case "bytes":
                return chance.randbytes(chance.randrange(20))
            case "string" | "string16":
                known = self._topics + (self._read_only if API_KEYS[api] in READING else [])
                return chance.choice((*known, *known, "", "x" * 300, "no such", "é"))
        if field.name in ("max_wait_ms", "timeout_ms"):
            return chance.randrange(30)
        bits = int(field.type.removeprefix("int"))
        large = chance.randrange(-(1 << bits - 1), 1 << bits - 1)
        if field.name in ("num_partitions", "replication_factor"):
            large = 1
        return chance.choice((0, 0, 1, 1, 2, -1, -2, large))

    def _records(self, version: int) -> bytes:
        chance = self.chance
        codec = chance.choice((NONE, GZIP, SNAPPY, LZ4, ZSTD))
        values = ["v" * chance.randrange(50) for _ in range(chance.randrange(1, 4))]
        data = batch(*values, codec=codec, producer_id=chance.choice((-1, 3)), producer_epoch=0, base_sequence=0)
        if version < 3 and codec != ZSTD:
            return downconvert(data, chance.randrange(2), limit=1 << 20)
        return data
