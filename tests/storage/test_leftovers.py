"""What is left behind by a crash is settled by its names."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.protocol.records import Record, build_batch
from ottla.storage.leftovers import Step, settle, steps

OLD = ["0.log", "0.index", "10.log", "10.index", "20.log"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([*OLD, "partition.metadata", "notes.swap"], []),
        # a crash while the worker wrote
        ([*OLD, "0.log.cleaned", "0.index.cleaned"], [("0.log.cleaned", None), ("0.index.cleaned", None)]),
        # between the two names of the new files: the old ones are all there
        ([*OLD, "0.log.swap", "0.index.cleaned"], [("0.log.swap", None), ("0.index.cleaned", None)]),
        # all new ones ready, another group is still being written
        (
            [*OLD, "0.log.swap", "0.index.swap", "20.log.cleaned"],
            [
                ("20.log.cleaned", None),
                ("0.log", None),
                ("0.index", None),
                ("10.log", None),
                ("10.index", None),
                ("0.log.swap", "0.log"),
                ("0.index.swap", "0.index"),
            ],
        ),
        # some old ones are out of the way
        (
            ["0.log.deleted", "0.index", "10.log", "10.index", "20.log", "0.log.swap", "0.index.swap"],
            [
                ("0.log.deleted", None),
                ("0.index", None),
                ("10.log", None),
                ("10.index", None),
                ("0.log.swap", "0.log"),
                ("0.index.swap", "0.index"),
            ],
        ),
        # the log has its name, an index not yet
        (
            ["0.log", "0.index.swap", "0.timeindex", "10.log.deleted", "20.log"],
            [("10.log.deleted", None), ("0.index.swap", "0.index")],
        ),
        # producers as they were at an offset stay true
        (
            ["0.log", "0.log.swap", "10.snapshot", "10.log", "20.log"],
            [("0.log", None), ("10.log", None), ("0.log.swap", "0.log")],
        ),
    ],
    ids=["nothing", "cleaned", "half ready", "ready", "half way", "nearly done", "snapshot"],
)
def test_each_step_of_a_swap_can_be_taken_up(names: list[str], expected: list[Step]) -> None:
    assert steps(names, lambda name: 20) == expected


def test_a_swap_that_kept_nothing_replaces_the_segment_of_its_name() -> None:
    assert steps(["0.log", "0.log.swap", "10.log"], lambda name: -1) == [("0.log", None), ("0.log.swap", "0.log")]


def test_the_end_of_a_swap_is_read_from_its_batches(tmp_path: Path) -> None:
    batches = [build_batch([Record(base, 0, b"k", b"v")], base_offset=base, last_offset_delta=4) for base in (0, 10)]
    (tmp_path / "0.log.swap").write_bytes(b"".join(batches))
    for base in (0, 10, 14, 15):
        (tmp_path / f"{base}.log").write_bytes(b"old")
    settle(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.log", "15.log"]
    assert (tmp_path / "0.log").read_bytes() == b"".join(batches)
