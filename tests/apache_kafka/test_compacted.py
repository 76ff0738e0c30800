"""A log that ottla has compacted, read by Apache Kafka's own tool."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.protocol.compression import GZIP, LZ4, SNAPPY, ZSTD
from ottla.storage.log import Log
from support.apache_kafka import dump_log_segments, reason_to_skip
from support.compacting import Cleaner, write
from support.scribe import NOW, Scribe, topic_config


@pytest.mark.parametrize("form", [["--print-data-log"], ["--deep-iteration"], ["--index-sanity-check"]])
def test_both_dump_a_compacted_log_alike_and_find_no_fault(
    form: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = reason_to_skip()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    scribe = Scribe(Log(tmp_path / "t-0", topic_config(cleanup_policy="compact", index_interval_bytes=200)))
    scribe.log.create()
    cleaner = Cleaner()
    for number in range(40):
        codec = (0, GZIP, SNAPPY, LZ4, ZSTD)[number % 5]
        write(scribe, *((str(key * number % 17), f"value {number}") for key in range(9)), codec=codec)
    write(scribe, ("1", "gone"), ("2", "gone"), producer=(7, 0, 0), codec=GZIP)
    write(scribe, ("1", None), ("2", "stays"), ("3", "stays"))
    write(scribe, ("4", None), timestamp=NOW + 5, codec=ZSTD)
    scribe.log.roll()
    cleaner.clean(scribe)
    write(scribe, ("2", "newer"))
    scribe.log.roll()
    cleaner.clean(scribe)
    scribe.log.close()
    suffixes = (".log", ".index", ".timeindex", ".snapshot")
    files = sorted(path.relative_to(tmp_path) for path in (tmp_path / "t-0").iterdir() if path.suffix in suffixes)
    printed, complaints = dump_log_segments(files, *form, directory=tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main.run(["dump-log", *form, "--files", ",".join(map(str, files))]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == printed.splitlines()
    if "--index-sanity-check" not in form:
        assert "deleteHorizonMs: OptionalLong[" in printed
        assert "count: 0 " in printed
    assert "isvalid: false" not in printed
    assert "Mismatches" not in complaints
