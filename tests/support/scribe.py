"""A hand that writes batches into a log the way a leader does, and reads them back."""

from __future__ import annotations

from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.protocol.batch import HEADER, iter_batches
from ottla.protocol.records import Record, build_batch, iter_records
from ottla.storage.file import FileSlice
from ottla.storage.log import Log

NOW = 1_700_000_000_000


class Scribe:
    """Writes to a log the way a leader does, and reads it back."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def write(
        self,
        *values: bytes | str,
        timestamp: int = NOW,
        epoch: int = 0,
        producer: tuple[int, int, int] | None = None,
        codec: int = 0,
    ) -> int:
        producer_id, producer_epoch, sequence = producer or (-1, -1, -1)
        batch = build_batch(
            [
                Record(index, timestamp + index, None, value.encode() if isinstance(value, str) else value)
                for index, value in enumerate(values)
            ],
            codec=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )
        header = HEADER.unpack_from(batch)
        return self.log.append(batch, epoch, header, header[8])

    def read(self, offset: int, limit: int = 1 << 30, below: int = 1 << 62, at_least_one: bool = True) -> list[Record]:
        return records_of(self.log.read(offset, limit, below, at_least_one)[0])

    def read_all(self, offset: int = 0) -> list[Record]:
        """As a consumer does: on from the end of each batch, which may have lost its last records."""
        found: list[Record] = []
        while True:
            data = bytes_of(self.log.read(offset, 1 << 30, 1 << 62, True)[0])
            if not data:
                return found
            found += [record for record in records_of(data) if record.offset >= offset]
            *_, (_, last) = iter_batches(data)
            offset = last.next_offset


def bytes_of(data: bytes | FileSlice | None) -> bytes:
    if isinstance(data, FileSlice):
        part, data = data, b"".join(iter(lambda: part.read(1 << 20), b""))
        part.close()
    return data or b""


def records_of(data: bytes | FileSlice | None) -> list[Record]:
    data = bytes_of(data)
    return [
        record
        for position, header in iter_batches(data)
        for record in iter_records(data[position : position + header.size], 1 << 30)
    ]


def topic_config(**overrides: object) -> TopicConfig:
    keys = {key.replace("_", "."): str(value) for key, value in overrides.items()}
    return TopicConfig.resolve(keys, BrokerConfig.from_properties({}))
