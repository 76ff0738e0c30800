import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.groups.records import Committed, offset_key, offset_value
from ottla.protocol.records import Record, build_batch
from ottla.testing import BrokerProcess
from support.tools import Tool


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([Record(0, 5, b"\0\0\0\7", b"caf\xc3\xa9")]))
    return path


def run(*words: str) -> int:
    return main.run(["dump-log", *words])


def test_a_sound_file_is_dumped_with_status_0(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--files", str(file)) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"Dumping {file}\nLog starting offset: 0\nbaseOffset: 0 ")
    assert said.out.count("\n") == 3
    assert said.err == ""


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--print-data-log"], "key: \0\0\0\7 payload: café"),
        (["--value-decoder-class"], "key: \0\0\0\7 payload: café"),
        (["--key-decoder-class", "org.apache.kafka.tools.api.IntegerDecoder"], "key: 7 payload: café"),
        (["--value-decoder-class", "DefaultDecoder"], "key: \0\0\0\7 payload: 636166c3a9"),
    ],
)
def test_keys_and_values_are_shown_as_they_are_asked_for(
    file: Path, words: list[str], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--files", str(file), *words) == 0
    assert capsys.readouterr().out.endswith(f" headerKeys: [] {shown}\n")


def test_the_records_of_coordinators_are_shown_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "00000000000000000000.log"
    records = [
        (offset_key("g", "t", 3), offset_value(Committed(7, 2, "note", 1000))),
        (offset_key("g", "t", 3), None),
        (b"\0\x63", b""),
        (b"\0", b""),
        (offset_key("g", "t", 3), b"\0\x63"),
    ]
    path.write_bytes(build_batch([Record(at, 5, key, value) for at, (key, value) in enumerate(records)]))
    assert run("--files", str(path), "--offsets-decoder", "--skip-record-metadata") == 0
    place = 'key: {"type":"1","data":{"group":"g","topic":"t","partition":3}}'
    assert capsys.readouterr().out.splitlines()[3:] == [
        f'| {place} payload: {{"version":"3","data":{{"offset":7,"leaderEpoch":2,"metadata":"note",'
        '"commitTimestamp":1000}}',
        f"| {place} payload: <DELETE>",
        "| key: Unknown record type 99 at offset 2, skipping.",
        "| key: Error at offset 3, skipping. a key of 1 bytes",
        "| key: Error at offset 4, skipping. OffsetCommitValue: version 99 is not known",
    ]


def test_records_without_a_key_are_none_of_a_coordinator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([Record(0, 5, None, b"x")]))
    assert run("--files", str(path), "--offsets-decoder") == 1
    assert "offset 0 using the specified decoder (message had a missing key)" in capsys.readouterr().err
    assert run("--files", str(path), "--offsets-decoder", "--transaction-log-decoder") == 2


def test_a_decoder_that_is_not_there_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--files", str(file), "--value-decoder-class", "com.example.Avro") == 2
    assert "no decoder com.example.Avro: there are StringDecoder, " in capsys.readouterr().err


def test_a_value_that_is_no_number_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--files", str(file), "--value-decoder-class", "LongDecoder") == 1
    assert "a key or value of 5 bytes is no integer of 8 bytes" in capsys.readouterr().err


def test_damage_gets_status_1_after_the_other_files_are_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    damaged = file.with_name("00000000000000000007.log")
    damaged.write_bytes(data)
    gone = file.with_name("00000000000000000009.log")
    assert run("--files", f"{damaged},{gone},{file}") == 1
    said = capsys.readouterr()
    assert said.out.count("isvalid: true") == said.out.count("isvalid: false") == 1
    assert said.err == f"ottla: {damaged}: the CRC of the batch at position 0 is wrong (and 1 more)\n"


def test_a_file_of_another_kind_is_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--files", str(tmp_path / "meta.properties")) == 0
    assert "Ignoring unknown file" in capsys.readouterr().err


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([Record(at, 5, None, b"x" * 100) for at in range(20_000)]))
    words = [sys.executable, "-m", "ottla.cli", "dump-log", "--print-data-log", "--files", str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_an_index_is_checked_and_its_log_is_dumped_by_the_name_of_kafkas_class(
    ottla_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ("x" * 5000 + "\n") * 3 + "poison\n"  # an entry of the index for every 4096 bytes
    assert Tool("kafka-console-producer", ottla_broker.bootstrap)("--topic my-topic --sync", typed).status == 0
    ottla_broker.stop()  # cuts the index to its size
    log = ottla_broker.data_dir / "my-topic-0" / "00000000000000000000.log"
    words = ["kafka.tools.DumpLogSegments", "--index-sanity-check", "--print-data-log", "--files"]
    assert main.run_by_kafka_name("kafka-run-class.sh", [*words, f"{log.with_suffix('.index')},{log}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Dumping {log.with_suffix('.index')}"
    assert lines[1] == f"{log.with_suffix('.index')} passed sanity check."
    assert lines[2:4] == [f"Dumping {log}", "Log starting offset: 0"]
    assert lines[-1].endswith(" payload: poison")
