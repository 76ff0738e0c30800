"""Damage of every kind: what was flushed is there or the log says where it is broken, what was not is a prefix.

Each case damages a log of 40 records in segments of 8, then opens it as after a proper stop (`clean`), or as after a
crash with everything below 16 flushed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.protocol.batch import iter_batches
from ottla.storage.errors import CorruptLog
from support.scribe import NOW, Scribe

NewLog = Callable[..., Scribe]
Damage = Callable[[Path], None]

RECORDS, FLUSHED, PRODUCER = 40, 16, 7
ALL = list(range(RECORDS))


@pytest.fixture
def opened(new_log: NewLog, tmp_path: Path) -> Callable[..., Scribe]:
    """Writes the log, stops or drops it, damages it, opens it again."""

    def make(damage: Damage, *, clean: bool, recovery_point: int | None = None) -> Scribe:
        config = {"segment_bytes": 8 * 130, "index_interval_bytes": 200}
        scribe = new_log(**config)
        for number in ALL:
            scribe.write(
                f"{number:03}" * 19, timestamp=NOW + number, producer=(PRODUCER, 0, number), epoch=number // 15
            )
        assert scribe.log.segment_base_offsets() == [0, 8, 16, 24, 32]
        scribe.log.close() if clean else scribe.log.abandon()
        damage(tmp_path / "t-0")
        point = recovery_point if recovery_point is not None else RECORDS if clean else FLUSHED
        return new_log(clean=clean, recovery_point=point, **config)

    return make


def name(base: int, suffix: str) -> str:
    return f"{base:020d}.{suffix}"


def edit(file: str, change: Callable[[bytearray], object]) -> Damage:
    def damage(directory: Path) -> None:
        data = bytearray((directory / file).read_bytes())
        change(data)
        (directory / file).write_bytes(data)

    return damage


def write(file: str, data: bytes) -> Damage:
    return lambda directory: (directory / file).write_bytes(data) and None


def remove(*files: str) -> Damage:
    return lambda directory: [(directory / file).unlink() for file in files] and None


def copy(source: str, target: str) -> Damage:
    return lambda directory: (directory / target).write_bytes((directory / source).read_bytes()) and None


def flip(file: str, batch: int, byte: int) -> Damage:
    """Flips a bit in the n-th batch of a file."""

    def change(data: bytearray) -> None:
        positions = [position for position, _ in iter_batches(bytes(data))]
        data[positions[batch] + byte] ^= 4

    return edit(file, change)


def offsets(scribe: Scribe) -> list[int]:
    return [record.offset for record in scribe.read_all(scribe.log.start_offset)]


def consume(scribe: Scribe) -> None:
    """As a consumer that gets one batch at a time."""
    for offset in ALL:
        assert scribe.read(offset, 1)[0].offset == offset


def assert_is_as_written(scribe: Scribe, end: int = RECORDS) -> None:
    """All that a reader can learn of the log: records from every offset, times, producers, epochs; and it goes on."""
    log = scribe.log
    assert offsets(scribe) == list(range(end))
    assert [record.value for record in scribe.read_all()] == [f"{number:03}".encode() * 19 for number in range(end)]
    for offset in range(end):
        assert scribe.read(offset, 1)[0].offset == offset
        assert log.offset_for_timestamp(NOW + offset) == (NOW + offset, offset)
    assert log.producers.check(PRODUCER, 0, end - 1, end - 1) == (end - 1, NOW + end - 1)
    assert log.producers.check(PRODUCER, 0, end, end) is None
    assert list(log.epochs) == [(epoch, epoch * 15) for epoch in range((end - 1) // 15 + 1)]
    assert scribe.write("more", timestamp=NOW + end) == end


HARMLESS = {
    "nothing": lambda directory: None,
    "no index": remove(name(8, "index"), name(32, "index")),
    "no time index": remove(name(8, "timeindex"), name(32, "timeindex")),
    "an index of random bytes": write(name(8, "index"), os.urandom(64)),
    "an index of zeros": write(name(8, "index"), bytes(80)),
    "an index with zeros behind it": edit(name(8, "index"), lambda data: data.extend(bytes(80))),
    "an index with a torn entry": edit(name(8, "index"), lambda data: data.extend(b"abc")),
    "an index that ends early": edit(name(8, "index"), lambda data: data.__delitem__(slice(8, None))),
    "an index that begins wrong": edit(
        name(8, "index"), lambda data: data.__setitem__(slice(0, 8), b"\0\0\0\1\0\0\0\7")
    ),
    "another segment's index": copy(name(24, "index"), name(8, "index")),
    "an empty index": write(name(8, "index"), b""),
    "a time index of random bytes": write(name(8, "timeindex"), os.urandom(96)),
    "a time index of zeros": write(name(8, "timeindex"), bytes(96)),
    "a time index with zeros behind it": edit(name(8, "timeindex"), lambda data: data.extend(bytes(96))),
    "a time index that ends early": edit(name(8, "timeindex"), lambda data: data.__delitem__(slice(12, None))),
    "another segment's time index": copy(name(24, "timeindex"), name(8, "timeindex")),
    "an empty time index": write(name(8, "timeindex"), b""),
    "indexes without a log": write(name(4, "index"), b"12345678"),
    "no snapshots": lambda directory: [path.unlink() for path in directory.glob("*.snapshot")] and None,
    "a truncated snapshot": lambda directory: (
        [path.write_bytes(path.read_bytes()[:-3]) for path in directory.glob("*.snapshot")] and None
    ),
    "an empty snapshot": lambda directory: [path.write_bytes(b"") for path in directory.glob("*.snapshot")] and None,
    "a snapshot too long": lambda directory: (
        [path.write_bytes(path.read_bytes() + b"1234") for path in directory.glob("*.snapshot")] and None
    ),
    "a snapshot from the future": copy(name(8, "snapshot"), name(99, "snapshot")),
    "no leader epochs": remove("leader-epoch-checkpoint"),
    "garbage for leader epochs": write("leader-epoch-checkpoint", os.urandom(50)),
    "leader epochs in words": write("leader-epoch-checkpoint", b"0\n1\none two\n"),
    "leader epochs in disorder": write("leader-epoch-checkpoint", b"0\n2\n5 0\n3 9\n"),
    "leader epochs of the future": write("leader-epoch-checkpoint", b"0\n4\n0 0\n1 15\n2 30\n9 900\n"),
    "half a checkpoint": write("leader-epoch-checkpoint", b"0\n3\n0 0\n"),
    "a foreign file": write("notes.txt", b"mine"),
    "a log with a wrong name": write("zero.log", b"not a segment"),
    "a log with too short a name": write("12.log", b"not a segment"),
    "a file that was deleted": write(name(8, "log.deleted"), b"old"),
    "a file that was being cleaned": write(name(8, "log.cleaned"), b"half"),
    "a checkpoint that was being written": write("leader-epoch-checkpoint.tmp", b"0\n"),
}


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("damage", HARMLESS.values(), ids=HARMLESS.keys())
def test_what_can_be_found_again_from_the_log_does_no_harm(
    opened: Callable[..., Scribe], damage: Damage, clean: bool
) -> None:
    try:
        scribe = opened(damage, clean=clean)
    except FileNotFoundError:
        assert not clean  # the last segment had no such file yet, which is one of the cases
        return
    assert_is_as_written(scribe)


def test_files_that_are_not_ours_are_left_alone(opened: Callable[..., Scribe], tmp_path: Path) -> None:
    opened(write("notes.txt", b"mine"), clean=False)
    assert (tmp_path / "t-0" / "notes.txt").read_bytes() == b"mine"


UNFLUSHED = {  # and where the log ends then
    "a torn last batch": (edit(name(32, "log"), lambda data: data.__delitem__(slice(-5, None))), 39),
    "half a header": (edit(name(32, "log"), lambda data: data.extend(data[:40])), 40),
    "a flipped bit in the last batch": (flip(name(32, "log"), -1, 100), 39),
    "a flipped bit in the middle of the tail": (flip(name(24, "log"), 3, 90), 27),
    "a flipped bit in a length": (flip(name(24, "log"), 3, 9), 27),
    "a flipped bit in an offset": (flip(name(24, "log"), 3, 7), 27),
    "zeros behind the end": (edit(name(32, "log"), lambda data: data.extend(bytes(5000))), 40),
    "zeros in place of the end": (
        edit(name(32, "log"), lambda data: data.__setitem__(slice(-200, None), bytes(200))),
        38,
    ),
    "random bytes behind the end": (edit(name(32, "log"), lambda data: data.extend(os.urandom(300))), 40),
    "old batches behind the end": (edit(name(32, "log"), lambda data: data.extend(data[:130])), 40),
    "an empty last segment": (write(name(32, "log"), b""), 32),
    "an empty segment in the tail": (write(name(24, "log"), b""), 24),
    "a segment in the tail that ends early": (
        edit(name(24, "log"), lambda data: data.__delitem__(slice(130 * 5, None))),
        None,
    ),
    "no last segment": (remove(name(32, "log")), 32),
    "a segment of other offsets": (copy(name(8, "log"), name(24, "log")), 24),
}


@pytest.mark.parametrize(("damage", "end"), UNFLUSHED.values(), ids=UNFLUSHED.keys())
def test_after_a_crash_the_log_is_cut_behind_the_last_good_batch_of_what_was_not_flushed(
    opened: Callable[..., Scribe], tmp_path: Path, damage: Damage, end: int | None
) -> None:
    scribe = opened(damage, clean=False)
    if end is None:
        end = scribe.log.end_offset
        assert 24 < end < 32
    assert scribe.log.end_offset == end
    assert_is_as_written(scribe, end)
    assert max(int(path.stem) for path in (tmp_path / "t-0").glob("*.log")) <= end


FLUSHED_DAMAGE = {
    "a flipped bit in a length": flip(name(8, "log"), 3, 9),
    "a flipped bit in the format": flip(name(8, "log"), 3, 16),
    "an empty segment": write(name(8, "log"), b""),
    "a segment that ends early": edit(name(8, "log"), lambda data: data.__delitem__(slice(-5, None))),
    "zeros in a segment": edit(
        name(8, "log"), lambda data: data.__setitem__(slice(len(data) // 8 * 3, 700), bytes(700 - len(data) // 8 * 3))
    ),
    "a segment of other offsets": copy(name(24, "log"), name(8, "log")),
}


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("damage", FLUSHED_DAMAGE.values(), ids=FLUSHED_DAMAGE.keys())
def test_damage_of_what_was_flushed_is_reported_and_nothing_is_cut_off(
    opened: Callable[..., Scribe], tmp_path: Path, damage: Damage, clean: bool
) -> None:
    with pytest.raises(CorruptLog, match=r"t-0.* had been on disk"):
        consume(opened(damage, clean=clean))
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "t-0").glob("*.log")}
    assert len(sizes) == 5
    assert all(sizes[name(base, "log")] for base in (0, 16, 24, 32))


def test_reads_before_the_damage_are_served(opened: Callable[..., Scribe]) -> None:
    scribe = opened(flip(name(8, "log"), 3, 16), clean=True)
    assert [record.offset for record in scribe.read(2)][-1] == 7
    with pytest.raises(CorruptLog):
        scribe.read(11)
    assert scribe.read(16, 1)[0].offset == 16


TAIL_DAMAGE = {
    "a torn last batch": UNFLUSHED["a torn last batch"][0],
    "no last segment": UNFLUSHED["no last segment"][0],
    "an empty last segment": UNFLUSHED["an empty last segment"][0],
    "no segment at all": lambda directory: [path.unlink() for path in directory.glob("*.log")] and None,
    "zeros behind the end": UNFLUSHED["zeros behind the end"][0],
}


@pytest.mark.parametrize("damage", TAIL_DAMAGE.values(), ids=TAIL_DAMAGE.keys())
def test_after_a_proper_stop_the_end_is_flushed_too(opened: Callable[..., Scribe], damage: Damage) -> None:
    with pytest.raises(CorruptLog):
        opened(damage, clean=True)


def test_a_log_that_breaks_off_before_the_recovery_point_is_not_cut_in_the_segment_that_holds_it(
    opened: Callable[..., Scribe], tmp_path: Path
) -> None:
    path = tmp_path / "t-0" / name(24, "log")
    with pytest.raises(CorruptLog, match=r"breaks off at offset 27 .* up to 28 it had been on disk"):
        opened(flip(name(24, "log"), 3, 16), clean=False, recovery_point=28)
    assert path.stat().st_size > 27 * 30


def test_bytes_before_the_recovery_point_are_not_read_again(opened: Callable[..., Scribe]) -> None:
    scribe = opened(flip(name(24, "log"), 1, 90), clean=False, recovery_point=28)  # a value: only a CRC would tell
    assert scribe.log.end_offset == RECORDS
