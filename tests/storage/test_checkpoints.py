"""Checkpoint files are there wholly or as they were before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.storage.checkpoints import read_offsets, write_offsets

OLD, NEW = {("t", 0): 7}, {("t", 0): 8, ("t", 1): 9}


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_disk_that_does_not_take_a_checkpoint_leaves_the_old_one_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "checkpoint"
    write_offsets(path, OLD)

    def refuse(*_: object) -> int:
        if call == "write":
            return 5  # so much fitted
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(OSError, match=r"No space|took 5 of"):
            write_offsets(path, NEW)
    assert read_offsets(path) == OLD
    assert os.listdir(tmp_path) == ["checkpoint"]
    write_offsets(path, NEW)
    assert read_offsets(path) == NEW


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xfe", b"0\n", b"1\n0\n", b"0\n2\nt 0 7\n", b"0\nmany\n", b"0\n1\nt zero 7\n", b"0\n1\nt 0\n"],
    ids=["empty", "no text", "cut", "version", "fewer lines", "no count", "no number", "no offset"],
)
def test_what_is_no_checkpoint_counts_as_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(data)
    assert read_offsets(path) == {}
