"""ottla and Apache Kafka 4.3 read each other's logs, and say the same of them."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.cli import main
from support.apache_kafka import dump_log_segments
from support.kafka_story import Story

DUMPED = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
FORMS = ([], ["--print-data-log"], ["--index-sanity-check", "--deep-iteration"], ["--verify-index-only"])

# Kafka 4.3 takes the beginning of every segment but the first for a gap.
GAP_BEFORE_THE_FIRST = re.compile(r"Non-consecutive offsets in .*\n  -1 is followed by \d+\n(?!  )")


def files_of(directory: Path, topics: str = "*", kinds: Sequence[str] = DUMPED) -> list[Path]:
    """The files of all partitions of topics, from the directory that holds them."""
    found = [
        path.relative_to(directory)
        for path in directory.glob(f"{topics}-*/*")
        if path.suffix in kinds and not path.parent.name.startswith("__cluster") and "-delete" not in path.parent.name
    ]
    return sorted(found)


def assert_same_dump(
    directory: Path,
    form: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    files: list[Path] | None = None,
) -> tuple[str, str]:
    files = files or files_of(directory)
    printed, complaints = dump_log_segments(files, *form, directory=directory)
    monkeypatch.chdir(directory)
    assert main.run(["dump-log", *form, "--files", ",".join(map(str, files))]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == printed.splitlines()
    complaints = GAP_BEFORE_THE_FIRST.sub("", complaints)
    assert sorted(said.err.splitlines()) == sorted(complaints.splitlines())
    return printed, complaints


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_both_dump_a_log_of_ottla_alike_and_find_no_fault(
    story: Story, form: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed, complaints = assert_same_dump(story.ottla, form, capsys, monkeypatch)
    assert complaints == ""
    files = files_of(story.ottla)
    assert sum(path.suffix == ".log" for path in files) > 1
    assert any(path.suffix == ".snapshot" for path in files)
    assert "isvalid: false" not in printed
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert f"compresscodec: {codec} " in printed


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_both_dump_a_log_of_kafka_alike(
    story: Story, form: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed, _ = assert_same_dump(story.clean.directory, form, capsys, monkeypatch)
    assert "isTransactional: true isControl: true" in printed


@pytest.mark.parametrize(
    ("topic", "decoder", "key"),
    [
        ("__consumer_offsets", "--offsets-decoder", '{"type":"1","data":{"group":'),
        ("__transaction_state", "--transaction-log-decoder", '{"type":"0","data":{"transactionalId":'),
    ],
)
def test_both_show_the_records_of_coordinators_alike(
    story: Story,
    topic: str,
    decoder: str,
    key: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = files_of(story.clean.directory, topic, [".log"])
    printed, _ = assert_same_dump(story.clean.directory, [decoder], capsys, monkeypatch, files)
    assert f" key: {key}" in printed


def test_kafka_serves_the_segments_of_ottla(story: Story) -> None:
    served = story.killed.view.records["from-ottla", 0]
    assert len(story.ottla_records) == 3000
    assert served[:3000] == story.ottla_records
    assert [record.value for record in served[3000:]] == [f"later {at}".encode() for at in range(100)]
    assert [record.offset for record in served] == list(range(3100))


def test_kafka_gets_back_what_ottla_had_taken_over_with_what_was_written_meanwhile(story: Story) -> None:
    before, after = story.clean.view, story.killed.view
    lent = [record.value for record in after.records["begun-later", 0][-20:]]
    assert lent == [f"lent {at}".encode() for at in range(20)]
    assert after.records["begun-later", 0][:-20] == before.records["begun-later", 0]
    assert (after.ids, after.configs) == (before.ids, before.configs)
