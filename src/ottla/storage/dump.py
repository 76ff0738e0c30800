"""The files of a log as text, the way Kafka 4.3's DumpLogSegments prints them (A2 INT-060, A3 L1 to L7).

    .log        batches, with --deep-iteration their records; message formats 0 to 2
    .index      offset and position; each entry's batch must end with its offset
    .timeindex  timestamp and offset; each entry's batch must end with its offset and hold its timestamp
    .snapshot   producers (producers.py)
    .txnindex   aborted transactions: version int16 = 0 | producer id int64 | first, last, last stable offset int64

Files are only read, as they are at that moment: a broker may be writing to them, and another program may have made
them. What is wrong with one is collected in `Findings`, after which the dump goes on as far as it can.

An index of a running or killed Kafka is set aside in full size and zero behind its entries: there it ends.
"""

from __future__ import annotations

import os
import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

from ottla.protocol import compression
from ottla.protocol.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    crc_of,
    read_header,
)
from ottla.protocol.errors import ProtocolError
from ottla.protocol.legacy import open_messages
from ottla.protocol.records import (
    ABORT,
    COMMIT,
    Record,
    control_type,
    iter_records,
    marker_coordinator_epoch,
    max_timestamp_record,
)
from ottla.storage.producers import CorruptSnapshot, read_snapshot
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX

NO_LIMIT = 2**31 - 1
MAX_MESSAGE_SIZE = 5 * 1024 * 1024
UNPACKED_LIMIT = 2**31 - 1  # of one batch

_HEAD = struct.Struct(">qiib")  # base offset, length, leader epoch or CRC, magic
_LEGACY = struct.Struct(">qiIbb")  # offset, size, CRC, magic, attributes
_SMALLEST = 14  # length of the smallest message of any format
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_INT64 = struct.Struct(">q")
_TXN_ENTRY = struct.Struct(">hqqqq")
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
_MARKERS = {ABORT: "ABORT", COMMIT: "COMMIT"}
_CONTROL_TYPES = {
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}


class Undumpable(Exception):
    """A file that cannot be dumped, or not to its end, and why."""


class UnknownFile(Exception):
    """A file of another kind."""


def text(data: bytes) -> str:
    return data.decode(errors="replace")


@dataclass(slots=True)
class Options:
    deep: bool = False
    print_data: bool = False
    skip_record_metadata: bool = False
    sanity_check_only: bool = False
    verify_only: bool = False
    max_bytes: int = NO_LIMIT
    max_message_size: int = MAX_MESSAGE_SIZE
    key: Callable[[bytes], str] = text
    value: Callable[[bytes], str] = text
    # in place of the two, where they are read together: offset, key and value to what is shown of them
    record: Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]] | None = None


@dataclass(slots=True)
class Findings:
    """What does not fit together. Gaps between offsets are no damage: compaction and markers leave them."""

    index_mismatches: dict[Path, list[tuple[int, int]]] = field(default_factory=dict)  # offset: in index, in log
    time_mismatches: dict[Path, list[tuple[int, int]]] = field(default_factory=dict)  # timestamp: in index, in log
    time_out_of_order: dict[Path, list[tuple[int, int]]] = field(default_factory=dict)  # timestamp, one before it
    time_not_found: dict[Path, list[tuple[int, int]]] = field(default_factory=dict)  # offset: in index, in log
    gaps: dict[Path, list[tuple[int, int]]] = field(default_factory=dict)
    damage: list[str] = field(default_factory=list)  # one line each

    def lines(self) -> Iterator[str]:
        """What was found, in Kafka's words."""
        for path, pairs in self.index_mismatches.items():
            yield f"Mismatches in :{path}"
            yield from (f"  Index offset: {index}, log offset: {log}" for index, log in pairs)
        for path, pairs in self.time_mismatches.items():
            yield f"Found timestamp mismatch in :{path}"
            yield from (f"  Index timestamp: {index}, log timestamp: {log}" for index, log in pairs)
        for path, pairs in self.time_out_of_order.items():
            yield f"Found out of order timestamp in :{path}"
            yield from (f"  Index timestamp: {index}, Previously indexed timestamp: {last}" for index, last in pairs)
        for pairs in self.time_not_found.values():
            yield "The following indexed offsets are not found in the log."
            yield from (f"Indexed offset: {index}, found log offset: {log}" for index, log in pairs)
        for path, pairs in self.gaps.items():
            yield f"Non-consecutive offsets in {path}"
            yield from (f"  {first} is followed by {second}" for first, second in pairs)

    def damaged(self) -> list[str]:
        """One line for each thing that should not be."""
        unfit = [*self.index_mismatches, *self.time_mismatches, *self.time_out_of_order, *self.time_not_found]
        return [*self.damage, *(f"{path} does not fit its log" for path in dict.fromkeys(unfit))]

    def note(self, where: dict[Path, list[tuple[int, int]]], path: Path, pair: tuple[int, int]) -> None:
        where.setdefault(path.absolute(), []).append(pair)


def dump(path: Path, options: Options, findings: Findings) -> Iterator[str]:
    """The lines that say what the file holds. Raises Undumpable, also in the middle, and OSError."""
    match path.suffix:
        case ".log":
            return _dump_log(path, options, findings)
        case ".index":
            return _dump_index(path, options, findings)
        case ".timeindex":
            return _dump_time_index(path, options, findings)
        case ".snapshot":
            return _dump_snapshot(path)
        case ".txnindex":
            return _dump_txn_index(path)
    raise UnknownFile(f"Ignoring unknown file {path}")


def base_offset_of(path: Path) -> int:
    stem = path.name.partition(".")[0]
    if not (stem.isascii() and stem.isdigit()):
        raise Undumpable(f"{path}: the file of a segment is named after its first offset")
    return int(stem)


# -- logs ----------------------------------------------------------------------------------------------------------


class SegmentReader:
    """The batches of a `.log` within its first `limit` bytes, in any message format."""

    def __init__(self, path: Path, limit: int = NO_LIMIT) -> None:
        self.path = path
        self._file = path.open("rb")
        self.size = min(os.fstat(self._file.fileno()).st_size, limit)

    def __enter__(self) -> SegmentReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def batches(self, position: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Position and bytes of each whole batch from `position` on; ends where none begins that ends by `end`."""
        end = self.size if end is None else min(end, self.size)
        while 0 <= position <= end - _HEAD.size:
            self._file.seek(position)
            head = self._file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                return
            _, length, _, magic = _HEAD.unpack(head)
            if length < (HEADER_SIZE - LENGTH_OVERHEAD if magic == MAGIC else _SMALLEST) or not 0 <= magic <= MAGIC:
                return
            size = length + LENGTH_OVERHEAD
            if position + size > end:
                return
            batch = head + self._file.read(size - _HEAD.size)
            if len(batch) < size:
                return
            yield position, batch
            position += size

    def is_zero_from(self, position: int) -> bool:
        """Whether only zeros follow, which is space set aside (`log.preallocate`)."""
        self._file.seek(position)
        while chunk := self._file.read(1 << 20):
            if chunk.count(0) != len(chunk):
                return False
        return True


def _dump_log(path: Path, options: Options, findings: Findings) -> Iterator[str]:
    yield f"Log starting offset: {base_offset_of(path)}"
    with SegmentReader(path, options.max_bytes) as reader:
        valid, last_offset = 0, -1
        for position, batch in reader.batches():
            valid = position + len(batch)
            yield _batch_line(batch, position, path, findings)
            if not options.deep:
                continue
            try:
                for offset, line in _record_lines(batch, options):
                    if last_offset not in (-1, offset - 1):
                        findings.note(findings.gaps, path, (last_offset, offset))
                    last_offset = offset
                    yield line
            except ProtocolError as error:
                raise Undumpable(f"{path}: the batch at position {position} cannot be opened: {error}") from None
        left = reader.size - valid
        if left and options.max_bytes == NO_LIMIT:
            yield f"Found {left} invalid bytes at the end of {path.name}"
            if not reader.is_zero_from(valid):
                findings.damage.append(f"{path}: {left} bytes at its end are no batch")


def _batch_line(batch: bytes, position: int, path: Path, findings: Findings) -> str:
    if batch[16] == MAGIC:
        header = read_header(batch)
        valid = crc_of(batch, 0, len(batch)) == header.crc
        line = _batch_place(header)
        timestamp_type, timestamp = _TIMESTAMP_TYPES[header.timestamp_type], header.max_timestamp
        magic, codec, crc = header.magic, header.codec, header.crc
    else:
        offset, _, crc, magic, attributes = _LEGACY.unpack_from(batch)
        valid = zlib.crc32(memoryview(batch)[16:]) == crc
        line = f"offset: {offset}"
        timestamp_type, timestamp = _legacy_time(batch)
        codec = attributes & CODEC_MASK
    if not valid:
        findings.damage.append(f"{path}: the CRC of the batch at position {position} is wrong")
    name = compression.NAMES[codec] if codec < len(compression.NAMES) else str(codec)
    return (
        f"{line} position: {position} {timestamp_type}: {timestamp} size: {len(batch)} magic: {magic}"
        f" compresscodec: {name} crc: {crc} isvalid: {_java(valid)}"
    )


def _batch_place(header: BatchHeader) -> str:
    horizon = f"OptionalLong[{header.base_timestamp}]" if header.has_delete_horizon else "OptionalLong.empty"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count}"
        f" baseSequence: {header.base_sequence} lastSequence: {header.last_sequence}"
        f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.partition_leader_epoch} isTransactional: {_java(header.is_transactional)}"
        f" isControl: {_java(header.is_control)} deleteHorizonMs: {horizon}"
    )


def _legacy_time(batch: bytes) -> tuple[str, int]:
    if batch[16] == 0:
        return "NoTimestampType", NO_TIMESTAMP
    (timestamp,) = _INT64.unpack_from(batch, _LEGACY.size)
    return _TIMESTAMP_TYPES[batch[17] >> 3 & 1], timestamp


def _java(value: bool) -> str:
    return "true" if value else "false"


def _record_lines(batch: bytes, options: Options) -> Iterator[tuple[int, str]]:
    """Offset and line of each record of a batch."""
    if batch[16] != MAGIC:
        timestamp_type, _ = _legacy_time(batch)
        for offset, timestamp, message in open_messages(batch, UNPACKED_LIMIT):
            line = _record_line(Record(offset, timestamp, message.key, message.value), timestamp_type)
            line += f" isValid: true crc: {message.crc}"
            yield offset, _with_data(line, offset, message.key, message.value, options)
        return
    header = read_header(batch)
    timestamp_type = _TIMESTAMP_TYPES[header.timestamp_type]
    for record in iter_records(batch, UNPACKED_LIMIT):
        sequence = header.base_sequence
        if sequence >= 0:
            sequence = (sequence + record.offset - header.base_offset) & 0x7FFFFFFF
        names = ",".join(name for name, _ in record.headers)
        line = f"{_record_line(record, timestamp_type)} sequence: {sequence} headerKeys: [{names}]"
        if header.is_control:
            yield record.offset, "" if options.skip_record_metadata else line + _control(record)
        else:
            yield record.offset, _with_data(line, record.offset, record.key, record.value, options)


def _record_line(record: Record, timestamp_type: str) -> str:
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    return f"| offset: {record.offset} {timestamp_type}: {record.timestamp} keySize: {key_size} valueSize: {value_size}"


def _with_data(line: str, offset: int, key: bytes | None, value: bytes | None, options: Options) -> str:
    words = [] if options.skip_record_metadata else [line]
    if options.print_data:
        if options.record is not None:
            shown_key, shown_value = options.record(offset, key, value)
        else:
            shown_key = options.key(key) if key is not None else None
            shown_value = options.value(value) if value is not None else None
        words += [f"key: {shown_key}"] if shown_key is not None else []
        words += [f"payload: {shown_value}"] if shown_value is not None else []
    if options.skip_record_metadata and words:
        words[0] = f"| {words[0]}"
    return " ".join(words)


def _control(record: Record) -> str:
    kind = control_type(record.key)
    if kind in _MARKERS:
        return f" endTxnMarker: {_MARKERS[kind]} coordinatorEpoch: {marker_coordinator_epoch(record.value)}"
    return f" controlType: {_CONTROL_TYPES.get(kind, 'UNKNOWN')}({kind})"


# -- indexes -------------------------------------------------------------------------------------------------------


def _entries(path: Path, form: struct.Struct) -> list[tuple[int, int]]:
    """The entries of an index, without the zeros behind them; an odd number of bytes at the end is left out."""
    data = path.read_bytes()
    whole = len(data) - len(data) % form.size
    used = len(data.rstrip(b"\0"))
    return list(form.iter_unpack(data[: min(whole, used + -used % form.size)]))


def _check_size(path: Path, entry_size: int) -> None:
    size = path.stat().st_size
    if size % entry_size:
        raise Undumpable(f"{path} is damaged: its {size} bytes are no multiple of the {entry_size} of an entry")


def _dump_index(path: Path, options: Options, findings: Findings) -> Iterator[str]:
    base = base_offset_of(path)
    with SegmentReader(path.with_suffix(LOG_SUFFIX)) as reader:
        entries = _entries(path, _OFFSET_ENTRY)
        if not entries:
            yield f"{path} is empty."
            return
        if options.sanity_check_only:
            _check_size(path, _OFFSET_ENTRY.size)
            if entries[-1][0] < 0:
                raise Undumpable(f"{path} is damaged: its last offset lies {-entries[-1][0]} before its first")
            yield f"{path} passed sanity check."
            return
        for relative, position in entries:
            batch = next(reader.batches(position, position + options.max_message_size), None)
            if batch is None:
                raise Undumpable(
                    f"{path}: at position {position}, which it has for offset {base + relative}, the log has no batch"
                    f" of up to {options.max_message_size} bytes (--max-message-size)"
                )
            found = _last_offset(batch[1])
            if found != base + relative:
                findings.note(findings.index_mismatches, path, (base + relative, found))
            if not options.verify_only:
                yield f"offset: {base + relative} position: {position}"


def _dump_time_index(path: Path, options: Options, findings: Findings) -> Iterator[str]:
    base = base_offset_of(path)
    offset_index = path.with_suffix(INDEX_SUFFIX)
    with SegmentReader(path.with_suffix(LOG_SUFFIX)) as reader:
        entries = _entries(path, _TIME_ENTRY)
        if options.sanity_check_only:
            _check_time_index(path, entries)
            yield f"{path} passed sanity check."
            return
        positions = _entries(offset_index, _OFFSET_ENTRY) if offset_index.exists() else []
        last = NO_TIMESTAMP
        for timestamp, relative in entries:
            floor = bisect_right(positions, relative, key=itemgetter(0))
            _check_time_entry(
                path, reader, positions[floor - 1][1] if floor else 0, timestamp, base + relative, findings
            )
            if last >= timestamp:
                findings.note(findings.time_out_of_order, path, (timestamp, last))
            if not options.verify_only:
                yield f"timestamp: {timestamp} offset: {base + relative}"
            last = timestamp


def _check_time_index(path: Path, entries: list[tuple[int, int]]) -> None:
    _check_size(path, _TIME_ENTRY.size)
    if entries and (entries[-1][0] < entries[0][0] or entries[-1][1] < 0):
        raise Undumpable(f"{path} is damaged: its last entry {entries[-1]} lies before its first {entries[0]}")


def _check_time_entry(
    path: Path, reader: SegmentReader, position: int, timestamp: int, offset: int, findings: Findings
) -> None:
    for at, batch in reader.batches(position):
        found = _last_offset(batch)
        if found < offset:
            continue
        if found != offset:
            findings.note(findings.time_not_found, path, (offset, found))
            return
        try:
            newest = _max_timestamp(batch)
        except ProtocolError as error:
            raise Undumpable(f"{reader.path}: the batch at position {at} cannot be opened: {error}") from None
        if newest != timestamp:
            findings.note(findings.time_mismatches, path, (timestamp, newest))
        return
    findings.note(findings.time_not_found, path, (offset, -1))


def _last_offset(batch: bytes) -> int:
    if batch[16] == MAGIC:
        return read_header(batch).last_offset
    offset: int = _INT64.unpack_from(batch)[0]  # a wrapper has that of its last message
    return offset


def _max_timestamp(batch: bytes) -> int:
    if batch[16] == MAGIC:
        return max_timestamp_record(batch, UNPACKED_LIMIT)[0]
    return max((time for _, time, _ in open_messages(batch, UNPACKED_LIMIT)), default=NO_TIMESTAMP)


# -- producers and transactions ------------------------------------------------------------------------------------


def _dump_snapshot(path: Path) -> Iterator[str]:
    try:
        entries = read_snapshot(path.read_bytes())
    except CorruptSnapshot as error:
        raise Undumpable(f"{path} is damaged: {error}") from None
    for entry in entries:
        start = entry.transaction_start
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} coordinatorEpoch: {entry.coordinator_epoch}"
            f" currentTxnFirstOffset: {f'OptionalLong[{start}]' if start >= 0 else 'OptionalLong.empty'}"
            f" lastTimestamp: {entry.timestamp}"
        )
        if entry.last_offset >= 0:
            line += (
                f" firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence}"
                f" lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
            )
        yield line


def _dump_txn_index(path: Path) -> Iterator[str]:
    data = path.read_bytes()
    for at in range(0, len(data), _TXN_ENTRY.size):
        if at + _TXN_ENTRY.size > len(data):
            raise Undumpable(f"{path} is damaged: its last {len(data) - at} bytes are no entry")
        version, producer_id, first, last, stable = _TXN_ENTRY.unpack_from(data, at)
        if version != 0:
            raise Undumpable(f"{path} is damaged: the entry at position {at} has format {version}, known is 0")
        yield (
            f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last}"
            f" lastStableOffset: {stable}"
        )
