import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.consoles import Consoles, consoles, fresh

__all__ = ["consoles"]


def test_lines_become_records_and_the_topic_is_created(consoles: Consoles) -> None:
    topic = fresh("first")
    out, err = consoles.produce(topic, b"hello\nworld\n")
    assert (consoles.status, out) == (0, b"")
    for line in err.splitlines():
        assert line.startswith("WARN Error while fetching metadata with correlation id ")
        assert line.endswith(f" : {{{topic}=LEADER_NOT_AVAILABLE}}")
    assert consoles.consume(topic, 2) == b"hello\nworld\n"


def test_keys_headers_and_nulls_go_along(consoles: Consoles) -> None:
    topic = fresh("keyed")
    typed = b"h:1,i:NIL;user,a,b\nNIL;NIL,NIL\n"
    properties = {
        "parse.key": "true",
        "key.separator": ",",
        "parse.headers": "true",
        "headers.delimiter": ";",
        "null.marker": "NIL",
    }
    consoles.produce(topic, typed, *(word for item in properties.items() for word in ("--property", "=".join(item))))
    assert consoles.status == 0
    shown = consoles.consume(topic, 2, "--property", "print.key=true", "--property", "print.headers=true")
    assert shown == b"h:1,i:null\tuser\ta,b\nNO_HEADERS\tnull\tnull\n"


def test_a_reader_is_set_up_by_a_file_too(consoles: Consoles, tmp_path: Path) -> None:
    topic = fresh("config")
    (tmp_path / "reader.properties").write_text("parse.key=true\nkey.separator=#\n")
    consoles.produce(
        topic, b"k|v\n", "--reader-config", f"{tmp_path}/reader.properties", "--property", "key.separator=|"
    )
    assert consoles.consume(topic, 1, "--property", "print.key=true") == b"k\tv\n"


def test_values_are_serialized_as_asked(consoles: Consoles) -> None:
    topic = fresh("numbers")
    words = ("--value-serializer", "org.apache.kafka.common.serialization.LongSerializer")
    consoles.produce(topic, b"1\n-5\n", *words)
    assert consoles.consume(topic, 2) == b"\0\0\0\0\0\0\0\1\n\xff\xff\xff\xff\xff\xff\xff\xfb\n"
    deserializer = "value.deserializer=org.apache.kafka.common.serialization.LongDeserializer"
    assert consoles.consume(topic, 2, "--property", deserializer) == b"1\n-5\n"
    _, err = consoles.produce(topic, b"x\n", *words)
    assert consoles.status == 1
    assert err == "ottla: record 1 cannot be sent: LongSerializer: 'x' is no whole number\n"


@pytest.mark.parametrize("codec", [["--compression-codec"], ["--compression-codec", "zstd"], ["--sync"]])
def test_records_go_compressed_or_one_by_one(consoles: Consoles, codec: list[str]) -> None:
    topic = fresh("codec")
    consoles.produce(topic, b"a\nb\n", *codec)
    assert consoles.status == 0
    assert consoles.consume(topic, 2) == b"a\nb\n"


def test_kafkas_settings_of_the_producer_are_taken(consoles: Consoles, tmp_path: Path) -> None:
    topic = fresh("settings")
    (tmp_path / "p.properties").write_text("acks=1\nlinger.ms=5\nkey.serializer=StringSerializer\n")
    consoles.produce(
        topic, b"a\n", "--producer.config", f"{tmp_path}/p.properties", "--producer-property", "acks=all",
        "--request-required-acks", "1", "--request-timeout-ms", "2000", "--message-send-max-retries", "5",
        "--retry-backoff-ms", "50", "--socket-buffer-size", "65536", "--max-memory-bytes", "1000000",
        "--max-partition-memory-bytes", "1000", "--batch-size", "2000", "--metadata-expiry-ms", "60000",
        "--max-block-ms", "5000",
    )  # fmt: skip
    assert consoles.status == 0
    assert consoles.consume(topic, 1) == b"a\n"


def test_what_cannot_be_sent_is_told_with_status_1(consoles: Consoles) -> None:
    topic = fresh("large")
    _, err = consoles.produce(topic, b"a" * 2_000_000 + b"\nfits\n", "--producer-property", "max.request.size=5000000")
    assert consoles.status == 1
    lines = [line for line in err.splitlines() if not line.startswith("WARN")]
    told = f"Error when sending message to topic {topic} with key: null, value: 2000000 bytes with error: "
    assert lines[0].startswith(told + "MESSAGE_TOO_LARGE")
    assert lines[1:] == ["ottla: 1 of 2 messages could not be sent"]
    assert consoles.consume(topic, 1) == b"fits\n"


def test_lines_before_a_bad_one_are_sent(consoles: Consoles) -> None:
    topic = fresh("badline")
    _, err = consoles.produce(topic, b"k\tv\nbad\nk\tw\n", "--property", "parse.key=true")
    assert consoles.status == 1
    assert "ottla: No key separator found on line number 2: 'bad'\n" in err
    assert consoles.consume(topic, 1) == b"v\n"


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["--topic", "bad topic"], 1, "bad topic: INVALID_TOPIC_EXCEPTION"),
        ([], 2, "Missing option '--topic'"),
        (["--topic", "t", "--property", "parse.key"], 2, "--property 'parse.key' must be KEY=VALUE"),
        (["--topic", "t", "--compression-codec", "rar"], 2, "'rar' is not one of 'none', 'gzip'"),
        (["--topic", "t", "--producer-property", "partitioner.class=x"], 2, "partitioner.class has no counterpart"),
        (["--topic", "t", "--producer-property", "acks=7000"], 1, '"request.required.acks" value 7000 is outside'),
        (["--topic", "t", "--line-reader", "com.example.Reader"], 2, "--line-reader com.example.Reader: neither"),
        (["--topic", "t", "--reader-config", "/nowhere"], 2, "cannot read /nowhere: No such file"),
        (["--topic", "t", "--request-timeout-ms", "0"], 2, "0 is not in the range"),
    ],
)
def test_bad_input_gets_one_line(consoles: Consoles, words: list[str], status: int, told: str) -> None:
    _, err = consoles.run("console-producer", *words, typed=b"x\n")
    assert (consoles.status, err.count("\n")) == (status, 1)
    assert told in err


def test_a_topic_that_does_not_appear_is_told(ottla_broker_factory, consoles: Consoles) -> None:
    consoles.bootstrap = ottla_broker_factory(overrides={"auto.create.topics.enable": "false"}).bootstrap
    _, err = consoles.produce("nowhere", b"x\n", "--max-block-ms", "300")
    assert consoles.status == 1
    assert "{nowhere=UNKNOWN_TOPIC_OR_PARTITION}" in err
    assert err.endswith("ottla: Topic nowhere not present in metadata after 300 ms.\n")


def test_a_reader_of_the_users_own_makes_the_records(
    consoles: Consoles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "word_reader.py").write_text(
        "from ottla.cli.console.readers import Record\n"
        "class Words:\n"
        "    def configure(self, properties): self.key = properties['mark'].encode()\n"
        "    def read_records(self, stream):\n"
        "        for word in stream.read().split(): yield Record(word, self.key, [('h', b'1')])\n"
        "    def close(self): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    topic = fresh("words")
    consoles.produce(topic, b"one two\nthree", "--line-reader", "word_reader.Words", "--property", "mark=m")
    words = ("--property", "print.key=true", "--property", "print.headers=true")
    assert consoles.consume(topic, 3, *words) == b"h:1\tm\tone\nh:1\tm\ttwo\nh:1\tm\tthree\n"


def test_on_a_terminal_there_is_a_prompt_and_ctrl_c_sends_what_was_typed(consoles: Consoles) -> None:
    topic = fresh("typed")
    near, far = pty.openpty()
    words = [sys.executable, "-m", "ottla.cli", "console-producer", "--topic", topic]
    environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVER": consoles.bootstrap}
    with subprocess.Popen(words, stdin=far, stdout=far, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(far)
        seen = _until(near, b"", b">")
        os.write(near, b"hello\n")
        _until(near, seen, b"hello\r\n>")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    os.close(near)
    assert consoles.consume(topic, 1) == b"hello\n"


def _until(terminal: int, seen: bytes, wanted: bytes) -> bytes:
    deadline = time.monotonic() + 30
    while wanted not in seen:
        assert time.monotonic() < deadline, seen
        seen += os.read(terminal, 1000)
    return seen
