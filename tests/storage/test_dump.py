"""What the dump says of files that are damaged, old or half written; that it says what Kafka says of sound ones is
tested in tests/apache_kafka."""

import struct
from pathlib import Path

import pytest

from ottla.protocol.batch import HEADER_SIZE
from ottla.protocol.legacy import downconvert
from ottla.protocol.records import Record, build_batch, control_batch
from ottla.storage.dump import Findings, Options, Undumpable, UnknownFile, dump
from ottla.storage.log import Log
from support.scribe import NOW, Scribe, topic_config

NAME = "00000000000000000000"


def show(path: Path, **options: object) -> tuple[list[str], Findings]:
    findings = Findings()
    return list(dump(path, Options(**options), findings)), findings  # type: ignore[arg-type]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log with 60 batches of two records in one segment, closed."""
    log = Log(tmp_path / "orders-0", topic_config(index_interval_bytes=100))
    log.create()
    scribe = Scribe(log)
    for number in range(60):
        scribe.write(f"a{number}", f"b{number}", timestamp=NOW + 10 * number, producer=(7, 0, 2 * number))
    log.close()
    return log.directory


def test_a_batch_and_its_records_are_shown_with_all_they_have(directory: Path) -> None:
    lines, findings = show(directory / f"{NAME}.log", deep=True, print_data=True)
    assert lines[0] == "Log starting offset: 0"
    assert lines[1].startswith(
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 0 lastSequence: 1 producerId: 7 producerEpoch: 0"
        " partitionLeaderEpoch: 0 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty"
        f" position: 0 CreateTime: {NOW + 1} size: "
    )
    assert lines[1].endswith(" isvalid: true")
    assert lines[2] == f"| offset: 0 CreateTime: {NOW} keySize: -1 valueSize: 2 sequence: 0 headerKeys: [] payload: a0"
    assert len(lines) == 1 + 60 * 3
    assert not findings.damaged()


def test_indexes_that_fit_their_log_are_no_finding(directory: Path) -> None:
    for suffix in (".index", ".timeindex"):
        lines, findings = show(directory / (NAME + suffix))
        assert len(lines) > 10
        assert list(findings.lines()) == findings.damaged() == []


def test_space_set_aside_behind_the_entries_is_not_shown(directory: Path) -> None:
    for suffix in (".index", ".timeindex"):
        path = directory / (NAME + suffix)
        before, _ = show(path)
        with path.open("ab") as file:
            file.truncate(12 * 8 * 1000)
        assert show(path)[0] == before


def test_an_index_of_another_log_does_not_fit(directory: Path) -> None:
    path = directory / f"{NAME}.index"
    data = bytearray(path.read_bytes())
    (first,) = struct.unpack_from(">i", data)
    struct.pack_into(">i", data, 0, first + 1)
    path.write_bytes(data)
    lines, findings = show(path, verify_only=True)
    assert lines == []
    assert list(findings.lines()) == [f"Mismatches in :{path}", f"  Index offset: {first + 1}, log offset: {first}"]
    assert findings.damaged() == [f"{path} does not fit its log"]


def test_a_time_index_with_wrong_times_and_offsets_is_found_out(directory: Path) -> None:
    path = directory / f"{NAME}.timeindex"
    entries = list(struct.iter_unpack(">qi", path.read_bytes()))
    entries[0] = (entries[0][0] + 1, entries[0][1])
    entries[1] = (entries[0][0], entries[1][1] + 1)
    path.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
    _, findings = show(path, verify_only=True)
    assert [len(pairs) for pairs in findings.time_mismatches.values()] == [1]
    assert [len(pairs) for pairs in findings.time_out_of_order.values()] == [1]
    assert [len(pairs) for pairs in findings.time_not_found.values()] == [1]


@pytest.mark.parametrize(
    ("suffix", "data"),
    [
        (".index", b"\0\0\0\1\0\0\0\1\0"),
        (".index", b"\xff\xff\xff\xf0\0\0\0\1"),
        (".timeindex", b"\0" * 11 + b"\1\1"),
        (".timeindex", struct.pack(">qiqi", 9, 1, 5, 2)),
    ],
)
def test_an_index_that_no_broker_would_use_fails_the_sanity_check(directory: Path, suffix: str, data: bytes) -> None:
    path = directory / (NAME + suffix)
    assert show(path, sanity_check_only=True)[0] == [f"{path} passed sanity check."]
    path.write_bytes(data)
    with pytest.raises(Undumpable, match="is damaged"):
        show(path, sanity_check_only=True)


def test_a_flipped_bit_is_shown_as_invalid_and_the_dump_goes_on(directory: Path) -> None:
    path = directory / f"{NAME}.log"
    data = bytearray(path.read_bytes())
    data[HEADER_SIZE + 8] ^= 1
    path.write_bytes(data)
    lines, findings = show(path)
    assert lines[1].endswith("isvalid: false")
    assert lines[2].endswith("isvalid: true")
    assert findings.damaged() == [f"{path}: the CRC of the batch at position 0 is wrong"]


def test_records_that_cannot_be_read_end_the_dump_with_the_place(directory: Path) -> None:
    path = directory / f"{NAME}.log"
    data = bytearray(path.read_bytes())
    data[HEADER_SIZE] ^= 64
    path.write_bytes(data)
    with pytest.raises(Undumpable, match="the batch at position 0 cannot be opened"):
        show(path, deep=True)


def test_a_torn_batch_at_the_end_is_counted_in_bytes(directory: Path) -> None:
    path = directory / f"{NAME}.log"
    path.write_bytes(path.read_bytes()[:-3])
    lines, findings = show(path)
    assert len(lines) == 1 + 59 + 1
    assert lines[-1].endswith(f"invalid bytes at the end of {NAME}.log")
    assert len(findings.damaged()) == 1


def test_zeros_at_the_end_are_told_but_are_no_damage(directory: Path) -> None:
    path = directory / f"{NAME}.log"
    with path.open("ab") as file:
        file.write(bytes(5000))
    lines, findings = show(path)
    assert lines[-1] == f"Found 5000 invalid bytes at the end of {NAME}.log"
    assert not findings.damaged()


def test_a_limit_in_bytes_ends_the_dump_at_a_whole_batch(directory: Path) -> None:
    assert len(show(directory / f"{NAME}.log", max_bytes=200)[0]) == 1 + 2


def test_gaps_between_offsets_are_told_but_are_no_damage(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(build_batch([Record(1, 5, b"k", b"v"), Record(4, 5, b"k", None)]))
    lines, findings = show(path, deep=True, print_data=True)
    assert lines[2].endswith("keySize: 1 valueSize: 1 sequence: -1 headerKeys: [] key: k payload: v")
    assert lines[3].endswith("keySize: 1 valueSize: -1 sequence: -1 headerKeys: [] key: k")
    assert list(findings.lines()) == [f"Non-consecutive offsets in {path}", "  1 is followed by 4"]
    assert not findings.damaged()


def test_without_metadata_only_keys_and_values_are_left(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(build_batch([Record(0, 5, b"k", b"v"), Record(1, 5, None, b"v"), Record(2, 5, None, None)]))
    lines, _ = show(path, deep=True, print_data=True, skip_record_metadata=True)
    assert lines[2:] == ["| key: k payload: v", "| payload: v", ""]


def test_transaction_markers_are_named(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(control_batch(0, producer_id=1, producer_epoch=2, coordinator_epoch=3, timestamp=4))
    lines, _ = show(path, deep=True)
    assert lines[-1].endswith("sequence: -1 headerKeys: [] endTxnMarker: ABORT coordinatorEpoch: 3")


@pytest.mark.parametrize(("magic", "time"), [(0, "NoTimestampType: -1"), (1, "CreateTime: 6")])
@pytest.mark.parametrize("codec", [0, 1])
def test_old_message_formats_are_shown(tmp_path: Path, magic: int, time: str, codec: int) -> None:
    path = tmp_path / f"{NAME}.log"
    batch = build_batch([Record(0, 5, b"k", b"v"), Record(1, 6, None, b"w")], codec=codec)
    path.write_bytes(downconvert(batch, magic, limit=1000))
    lines, findings = show(path, deep=True, print_data=True)
    batches = [line for line in lines if line.startswith("offset: ")]
    assert f"offset: 1 position: {0 if codec else 27 + magic * 8 + 1} {time}" in batches[-1]
    assert f"magic: {magic} compresscodec: {'gzip' if codec else 'none'} crc: " in batches[-1]
    assert lines[-1].startswith(f"| offset: 1 {time} keySize: -1 valueSize: 1 isValid: true crc: ")
    assert lines[-1].endswith(" payload: w")
    assert not findings.damaged()


def test_a_snapshot_shows_the_last_batch_of_each_producer(directory: Path) -> None:
    (path,) = directory.glob("*.snapshot")
    lines, _ = show(path)
    assert lines == [
        "producerId: 7 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty"
        f" lastTimestamp: {NOW + 591} firstSequence: 118 lastSequence: 119 lastOffset: 119 offsetDelta: 1"
        f" timestamp: {NOW + 591}"
    ]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Undumpable, match="CRC"):
        show(path)


def test_aborted_transactions_are_shown(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.txnindex"
    entry = struct.pack(">hqqqq", 0, 7, 10, 12, 9)
    path.write_bytes(entry)
    assert show(path)[0] == ["version: 0 producerId: 7 firstOffset: 10 lastOffset: 12 lastStableOffset: 9"]
    path.write_bytes(entry + b"\0")
    with pytest.raises(Undumpable, match="last 1 bytes"):
        show(path)


def test_other_files_and_other_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownFile, match="Ignoring unknown file"):
        show(tmp_path / "leader-epoch-checkpoint")
    (tmp_path / "a.log").touch()
    with pytest.raises(Undumpable, match="named after its first offset"):
        show(tmp_path / "a.log")
