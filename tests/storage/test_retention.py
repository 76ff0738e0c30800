"""Which segments go: Kafka's rules, each as a log drawn by its segments."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ottla.config.topic import TopicConfig
from ottla.storage.errors import OffsetOutOfRange
from ottla.storage.retention import Breach, breaches
from support.scribe import NOW, Scribe, topic_config

NewLog = Callable[..., Scribe]
HOUR = 3_600_000
LOG_START, SIZE, TIME = Breach.LOG_START, Breach.SIZE, Breach.TIME


@dataclass
class Piece:
    """A segment of 10 offsets."""

    base_offset: int
    size: int = 100
    age_ms: int = 0
    asked: list[int] = field(default_factory=list)

    def newest_ms(self) -> int:
        self.asked.append(self.base_offset)
        return NOW - self.age_ms


def log_of(*ages_ms: int, size: int = 100) -> list[Piece]:
    return [Piece(10 * at, size, age) for at, age in enumerate(ages_ms)]


def judge(
    segments: list[Piece],
    *,
    start: int = 0,
    high_watermark: int | None = None,
    **config: object,
) -> list[Breach]:
    end = segments[-1].base_offset + (10 if segments[-1].size else 0)
    settings: TopicConfig = topic_config(**{"retention_ms": -1, **config})
    return list(
        breaches(
            segments,
            start_offset=start,
            end_offset=end,
            high_watermark=end if high_watermark is None else high_watermark,
            config=settings,
            now_ms=NOW,
        )
    )


@pytest.mark.parametrize(
    ("ages", "lifetime", "gone"),
    [
        ((3 * HOUR, 2 * HOUR, 0), 2 * HOUR, 1),  # exactly as old as the limit: stays
        ((3 * HOUR, 2 * HOUR + 1, 0), 2 * HOUR, 2),
        ((0, 9 * HOUR, 9 * HOUR, 0), HOUR, 0),  # the oldest is young: nothing behind it goes
        ((9 * HOUR, 0, 9 * HOUR, 0), HOUR, 1),
        ((9 * HOUR, 9 * HOUR), HOUR, 2),  # the active one too, when it is expired
        ((9 * HOUR, 9 * HOUR), -1, 0),  # no limit
        ((-9 * HOUR, 9 * HOUR, 0), HOUR, 0),  # a timestamp from the future holds everything behind it
        ((1, 0), 0, 1),
    ],
)
def test_by_time_segments_go_whose_newest_record_is_older_than_the_limit(
    ages: tuple[int, ...], lifetime: int, gone: int
) -> None:
    assert judge(log_of(*ages), retention_ms=lifetime) == [TIME] * gone


@pytest.mark.parametrize(
    ("sizes", "limit", "gone"),
    [
        ((100, 100, 100), 300, 0),
        ((100, 100, 100), 201, 0),  # without the oldest it would be less than the limit
        ((100, 100, 100), 200, 1),
        ((100, 100, 100), 199, 1),
        ((100, 100, 100), 100, 2),
        ((100, 100, 100), 0, 3),  # all of it, the active one included
        ((100, 100, 100), -1, 0),
        ((500, 10, 10), 100, 0),  # one large segment holds the small ones behind it
        ((100, 100, 0), 0, 2),  # an empty active segment stays
        ((100, 500), 500, 1),
    ],
)
def test_by_size_segments_go_while_the_rest_is_still_as_large_as_the_limit(
    sizes: tuple[int, ...], limit: int, gone: int
) -> None:
    segments = [Piece(10 * at, size) for at, size in enumerate(sizes)]
    assert judge(segments, retention_bytes=limit) == [SIZE] * gone


@pytest.mark.parametrize(("start", "gone"), [(0, 0), (9, 0), (10, 1), (11, 1), (20, 2), (29, 2), (30, 2)])
@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete", ""])
def test_below_the_log_start_segments_go_under_every_policy_but_never_the_active_one(
    start: int, gone: int, policy: str
) -> None:
    assert judge(log_of(0, 0, 0), start=start, cleanup_policy=policy) == [LOG_START] * gone


@pytest.mark.parametrize(("policy", "gone"), [("delete", 2), ("compact,delete", 2), ("compact", 0), ("", 0)])
def test_time_and_size_count_only_where_the_policy_deletes(policy: str, gone: int) -> None:
    old = log_of(9 * HOUR, 9 * HOUR, 0)
    assert judge(old, retention_ms=HOUR, cleanup_policy=policy) == [TIME] * gone
    assert judge(old, retention_bytes=100, cleanup_policy=policy) == [SIZE] * gone


@pytest.mark.parametrize(("high_watermark", "gone"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3)])
def test_nothing_goes_that_reaches_the_high_watermark(high_watermark: int, gone: int) -> None:
    old = log_of(9 * HOUR, 9 * HOUR, 9 * HOUR)
    assert judge(old, retention_ms=HOUR, high_watermark=high_watermark) == [TIME] * gone


def test_an_empty_log_keeps_its_only_segment() -> None:
    assert judge([Piece(0, 0, 9 * HOUR)], retention_ms=HOUR, retention_bytes=0) == []


def test_the_rules_work_together_from_the_oldest_on() -> None:
    segments = log_of(0, 0, 9 * HOUR, 9 * HOUR, 0, 0)
    assert judge(segments, start=10, retention_bytes=400, retention_ms=HOUR) == [LOG_START, SIZE, TIME, TIME]


def test_only_segments_that_time_decides_on_are_looked_into() -> None:
    segments = log_of(9 * HOUR, 9 * HOUR, 0, 0, 0)
    judge(segments, start=10, retention_ms=HOUR)
    assert [piece.asked for piece in segments] == [[], [10], [20], [], []]


# -- the log itself ----------------------------------------------------------------------------------------------


def three_segments(new_log: NewLog, **overrides: object) -> Scribe:
    scribe = new_log(**overrides)
    for number, epoch in (("a", 1), ("b", 2), ("c", 3)):
        scribe.write(number, epoch=epoch, producer=(7, 0, "abc".index(number)))
        if number != "c":
            scribe.log.roll()
    return scribe


def files(log_directory: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in log_directory.glob("*" + suffix))


def test_deleted_segments_are_out_of_sight_and_the_log_begins_behind_them(new_log: NewLog) -> None:
    scribe = three_segments(new_log)
    log = scribe.log
    aside = log.delete_oldest(2)
    assert (log.start_offset, log.end_offset) == (2, 3)
    assert files(log.directory, ".log") == ["00000000000000000002.log"]
    assert files(log.directory, ".index") == files(log.directory, ".timeindex") == []  # the active one's is in memory
    assert sorted(path.name for path in aside) == files(log.directory, ".deleted")
    assert "00000000000000000001.snapshot.deleted" in files(log.directory, ".deleted")
    assert list(log.epochs) == [(3, 2)]
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 1000, 3, True)
    assert [record.value for record in scribe.read(2)] == [b"c"]


def test_deleting_everything_leaves_an_empty_segment_at_the_end(new_log: NewLog) -> None:
    scribe = three_segments(new_log)
    scribe.log.delete_oldest(3)
    assert (scribe.log.start_offset, scribe.log.end_offset, scribe.log.size) == (3, 3, 0)
    assert scribe.write("d", epoch=3) == 3
    scribe.log.close()
    again = new_log()
    assert (again.log.start_offset, again.log.end_offset) == (3, 4)
    assert 7 in again.log.producers


def test_a_reader_in_the_middle_of_a_deleted_segment_reads_on(new_log: NewLog) -> None:
    scribe = new_log()
    for value in "abc":
        scribe.write(value)
    scribe.log.roll()
    walk = scribe.log.segments[0].batches(0)
    next(walk)
    scribe.log.delete_oldest(1)
    assert [header.base_offset for _, header in walk] == [1, 2]


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_left_to_remove_is_removed_at_the_next_opening(new_log: NewLog, clean: bool) -> None:
    scribe = three_segments(new_log)
    scribe.log.delete_oldest(1)
    scribe.log.close()
    again = new_log(clean=clean)
    assert files(again.log.directory, ".deleted") == []
    assert again.log.start_offset == 1
    assert [record.value for record in again.read_all(1)] == [b"b", b"c"]


def test_a_start_inside_a_segment_hides_the_records_before_it(new_log: NewLog) -> None:
    scribe = three_segments(new_log)
    scribe.log.move_start(1)
    scribe.log.move_start(0)  # backwards: nothing happens
    assert scribe.log.start_offset == 1
    assert list(scribe.log.epochs) == [(2, 1), (3, 2)]
    with pytest.raises(OffsetOutOfRange):
        scribe.log.read(0, 1000, 3, True)


def test_without_timestamps_the_age_of_the_file_counts(new_log: NewLog) -> None:
    scribe = new_log()
    scribe.write("a", timestamp=-1)
    segment = scribe.log.active
    os.utime(segment.file.path, (1000, 1000))
    assert segment.newest_ms() == 1_000_000
    scribe.write("b", timestamp=NOW)
    assert scribe.log.active is segment  # that one has a timestamp and the other has none is no reason to roll
    assert segment.newest_ms() == NOW


def test_a_segment_that_is_only_judged_keeps_no_file_open(new_log: NewLog) -> None:
    three_segments(new_log).log.close()
    log = new_log().log
    oldest = log.segments[0]
    assert oldest.newest_ms() == NOW
    assert oldest.file._fd == -1
