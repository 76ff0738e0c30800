import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.groups.records import Committed, offset_key, offset_value
from ottla.testing import BrokerProcess
from support.consoles import Consoles, consoles, fresh

__all__ = ["consoles"]


@pytest.fixture
def topic(consoles: Consoles) -> str:
    """Two records: `k:v` with headers, and a value alone."""
    name = fresh("shown")
    properties = ["--property", "parse.headers=true", "--property", "parse.key=true", "--property", "ignore.error=true"]
    consoles.produce(name, b"a:1,b:\tk\tv\nalone\n", *properties)
    return name


def test_all_parts_of_a_record_are_shown_in_kafkas_order(consoles: Consoles, topic: str) -> None:
    parts = ("timestamp", "key", "value", "offset", "partition", "headers", "epoch", "delivery")
    words = [word for part in parts for word in ("--property", f"print.{part}=true")]
    out = consoles.consume(topic, 2, *words, "--formatter-property", "key.separator=|")
    expected = (
        r"CreateTime:\d{13}\|Partition:0\|Offset:0\|Delivery:NOT_PRESENT\|Epoch:0\|a:1,b:\|k\|v\n"
        r"CreateTime:\d{13}\|Partition:0\|Offset:1\|Delivery:NOT_PRESENT\|Epoch:0\|NO_HEADERS\|null\|alone\n"
    )
    assert re.fullmatch(expected, out.decode())


@pytest.mark.parametrize(
    ("properties", "shown"),
    [
        (["line.separator=;"], b"v;alone;"),
        (["print.value=false"], b""),
        (["print.key=true", "print.value=false"], b"k\nnull\n"),
        (["print.key=true", "null.literal=<nil>"], b"k\tv\n<nil>\talone\n"),
        (["print.headers=true", "headers.separator= & "], b"a:1 & b:\tv\nNO_HEADERS\talone\n"),
        (["key.deserializer=LongDeserializer"], b"v\nalone\n"),
    ],
)
def test_the_formatter_does_as_its_properties_say(
    consoles: Consoles, topic: str, properties: list[str], shown: bytes
) -> None:
    assert consoles.consume(topic, 2, *(word for one in properties for word in ("--property", one))) == shown


@pytest.mark.parametrize(
    "name", ["DefaultFormatter", "kafka.tools.DefaultFormatter", "kafka.tools.DefaultMessageFormatter"]
)
def test_the_default_formatter_has_many_names(consoles: Consoles, topic: str, name: str) -> None:
    assert consoles.consume(topic, 2, "--formatter", name) == b"v\nalone\n"


def test_the_other_formatters(consoles: Consoles, topic: str) -> None:
    assert consoles.consume(topic, 2, "--formatter", "kafka.tools.NoOpMessageFormatter") == b""
    checksums = consoles.consume(topic, 2, "--formatter", "kafka.tools.ChecksumMessageFormatter").decode()
    assert re.fullmatch(r"(CreateTime:\d{13}, checksum:\d{1,10}\n){2}", checksums)
    out, err = consoles.run(
        "console-consumer", "--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "2",
        "--formatter", "org.apache.kafka.tools.consumer.LoggingMessageFormatter",
    )  # fmt: skip
    assert out == b"v\nalone\n"
    lines = err.splitlines()
    assert re.fullmatch(r"\[.+,\d{3}\] INFO CreateTime:\d{13}, key:k, value:v \(LoggingMessageFormatter\)", lines[0])
    assert "key:null value:alone (" in lines[1]


def test_committed_offsets_are_shown_as_kafka_has_shown_them_over_the_years(consoles: Consoles) -> None:
    topic = fresh("like-offsets")  # an ordinary topic with such records does as well as the coordinators' own
    committed = offset_value(Committed(481690879, 2, "", 1479708539051))
    of_group = bytes.fromhex("00020002") + b"gr"
    with_expiry = offset_value(Committed(5, -1, "note", 1000, 2000))
    consoles.fill(
        topic,
        (offset_key("my-group-name", "my-topic", 0), committed),
        (of_group, bytes.fromhex("0003") + b"\0\0" + b"\0\0\0\1" + b"\xff\xff" * 2 + b"\0" * 12),
        (b"\0\x63", b"of a later Kafka"),
        (None, b"no key"),
        (offset_key("g", "t", 1), with_expiry),
        (offset_key("g", "t", 1), None),
    )

    def shown(formatter: str, *words: str) -> list[str]:
        return consoles.consume(topic, 6, "--formatter", formatter, *words).decode().splitlines()

    old = "kafka.coordinator.GroupMetadataManager$OffsetsMessageFormatter"
    assert shown(old) == [
        "[my-group-name,my-topic,0]::[OffsetMetadata[481690879,NO_METADATA],"
        "CommitTime 1479708539051,ExpirationTime 1480313339051]",
        "[g,t,1]::[OffsetMetadata[5,note],CommitTime 1000,ExpirationTime 2000]",
        "[g,t,1]::NULL",
    ]
    assert "ExpirationTime 1479708599051]" in shown(old, "--property", "offsets.retention.minutes=1")[0]
    assert shown("kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter") == [
        "[my-group-name,my-topic,0]::OffsetAndMetadata(offset=481690879, leaderEpoch=Optional[2], metadata=, "
        "commitTimestamp=1479708539051, expireTimestamp=None)",
        "[g,t,1]::OffsetAndMetadata(offset=5, leaderEpoch=Optional.empty, metadata=note, "
        "commitTimestamp=1000, expireTimestamp=Some(2000))",
        "[g,t,1]::null",
    ]
    new = shown("org.apache.kafka.tools.consumer.OffsetsMessageFormatter")
    assert new[0] == (
        '{"key":{"type":1,"data":{"group":"my-group-name","topic":"my-topic","partition":0}},"value":{"version":3,'
        '"data":{"offset":481690879,"leaderEpoch":2,"metadata":"","commitTimestamp":1479708539051}}}'
    )
    assert new[2] == '{"key":{"type":1,"data":{"group":"g","topic":"t","partition":1}},"value":null}'
    (group,) = shown("org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter")
    assert group.startswith('{"key":{"type":2,"data":{"group":"gr"}},"value":{"version":3,"data":{"protocolType":"",')


@pytest.mark.parametrize(
    ("offset", "shown"), [("1", b"alone\n"), ("EARLIEST", b"v\nalone\n"), ("latest", b""), ("2", b"")]
)
def test_it_begins_at_an_offset(consoles: Consoles, topic: str, offset: str, shown: bytes) -> None:
    count = shown.count(b"\n")
    end = ("--max-messages", str(count)) if count else ("--timeout-ms", "200")
    out, err = consoles.run("console-consumer", "--topic", topic, "--partition", "0", "--offset", offset, *end)
    assert (out, err, consoles.status) == (shown, f"Processed a total of {count} messages\n", 0)


def test_it_ends_when_nothing_comes_any_more(consoles: Consoles, topic: str) -> None:
    assert consoles.consume(topic, 100, "--timeout-ms", "2000") == b"v\nalone\n"
    assert consoles.status == 0


def test_a_record_that_cannot_be_shown_ends_it_or_is_skipped(consoles: Consoles, topic: str) -> None:
    words = ["console-consumer", "--topic", topic, "--partition", "0", "--from-beginning", "--max-messages", "2"]
    words += ["--value-deserializer", "org.apache.kafka.common.serialization.LongDeserializer"]
    _, err = consoles.run(*words)
    where = f"Error processing message {topic}-0 at offset 0"
    assert consoles.status == 1
    assert err == (
        "Processed a total of 1 messages\n"
        f"ottla: {where}: LongDeserializer: 1 bytes of data, and 8 are wanted\n"
    )  # fmt: skip
    _, err = consoles.run(*words, "--skip-message-on-error", "--enable-systest-events")
    assert consoles.status == 0
    assert err.startswith(f"{where}, skipping this message: LongDeserializer: ")
    assert err.endswith("Processed a total of 2 messages\n")


def test_a_formatter_of_the_users_own_writes_the_records(
    consoles: Consoles, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_formatter.py").write_text(
        "class Upper:\n"
        "    def configure(self, properties): self.end = properties['end'].encode()\n"
        "    def write_to(self, message, output): output.write(message.value().upper() + self.end)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    shown = consoles.consume(topic, 2, "--formatter", "own_formatter.Upper", "--property", "end=!")
    assert shown == b"V!ALONE!"


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ([], 2, "exactly one of --topic, --include, --whitelist and --blacklist is wanted"),
        (["--topic", "a", "--include", "b"], 2, "exactly one of --topic"),
        (["--topic", "a", "--offset", "1"], 2, "The partition is required when offset is specified."),
        (["--include", "a", "--partition", "1"], 2, "The topic is required when partition is specified."),
        (["--include", "a("], 1, "a( is an invalid regex"),
        (["--topic", "a", "--partition", "0", "--offset", "-3"], 2, "The provided offset value '-3' is incorrect."),
        (["--topic", "a", "--partition", "0", "--offset", "x"], 2, "The provided offset value 'x' is incorrect."),
        (["--topic", "a", "--partition", "-1"], 2, "-1 is not in the range"),
        (
            ["--topic", "a", "--partition", "0", "--offset", "1", "--from-beginning"],
            2,
            "Options from-beginning and offset cannot be specified together.",
        ),
        (["--topic", "a", "--partition", "0", "--group", "g"], 2, "Options group and partition cannot be specified"),
        (
            ["--topic", "a", "--group", "g", "--consumer-property", "group.id=h"],
            2,
            "do not match. Detected group ids: 'g', 'h'",
        ),
        (
            ["--topic", "a", "--from-beginning", "--consumer-property", "auto.offset.reset=latest"],
            2,
            "Can't simultaneously specify --from-beginning and 'auto.offset.reset=latest'",
        ),
        (["--topic", "a", "--formatter", "com.example.F"], 2, "--formatter com.example.F: neither one of"),
        (["--topic", "a", "--property", "value.deserializer=com.example.D"], 2, "value.deserializer com.example.D:"),
        (["--topic", "a", "--consumer-property", "max.poll.records=0"], 2, "max.poll.records=0 is illegal"),
        (["--topic", "a", "--consumer.config", "/nowhere"], 2, "cannot read /nowhere"),
        (["--topic", "a", "--isolation-level", "x"], 2, "'x' is not one of"),
    ],
)
def test_bad_input_gets_one_line(consoles: Consoles, words: list[str], status: int, told: str) -> None:
    _, err = consoles.run("console-consumer", *words)
    assert (consoles.status, err.count("\n")) == (status, 1)
    assert told in err


def test_a_partition_that_is_not_there_is_told(consoles: Consoles, topic: str) -> None:
    _, err = consoles.run("console-consumer", "--topic", topic, "--partition", "5")
    assert consoles.status == 1
    assert f"topic {topic} has no partition 5: the last one is 0" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_when_it_is_stopped_it_says_how_many_it_has_shown(consoles: Consoles, topic: str, number: int) -> None:
    words = [sys.executable, "-m", "ottla.cli", "console-consumer", "--topic", topic, "--partition", "0"]
    environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVER": consoles.bootstrap}
    with subprocess.Popen(
        [*words, "--from-beginning"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"v\n"
        assert process.stdout.readline() == b"alone\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"Processed a total of 2 messages\n")


def test_when_nobody_reads_it_ends(consoles: Consoles) -> None:
    name = fresh("long")
    consoles.produce(name, b"x" * 100_000 + b"\n" + b"y" * 100_000 + b"\n")
    words = [sys.executable, "-m", "ottla.cli", "console-consumer", "--topic", name, "--partition", "0"]
    environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVER": consoles.bootstrap}
    with subprocess.Popen(
        [*words, "--from-beginning"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read().decode()
        assert process.wait(30) == 0
    assert err.startswith("Unable to write to standard out, closing consumer.\nProcessed a total of ")


@pytest.fixture(scope="module")
def quick_groups() -> Iterator[str]:
    """A broker whose groups do not wait for more members."""
    overrides = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
    with BrokerProcess(overrides=overrides) as broker:
        yield broker.bootstrap


def test_a_group_goes_on_behind_what_was_shown(consoles: Consoles, quick_groups: str) -> None:
    consoles.bootstrap = quick_groups
    topic, group = fresh("continued"), fresh("group")
    consoles.produce(topic, b"1\n2\n3\n4\n5\n")
    words = ["console-consumer", "--topic", topic, "--consumer-property", f"group.id={group}", "--from-beginning"]
    assert consoles.run(*words, "--max-messages", "2")[0] == b"1\n2\n"
    assert consoles.run(*words, "--max-messages", "2", "--group", group)[0] == b"3\n4\n"
    out, _ = consoles.run(*words, "--max-messages", "1", "--consumer-property", "group.protocol=consumer")
    assert out == b"5\n"


def test_a_record_that_could_not_be_shown_comes_again(consoles: Consoles, quick_groups: str) -> None:
    consoles.bootstrap = quick_groups
    topic, group = fresh("again"), fresh("group")
    consoles.fill(topic, (None, b"\0" * 8), (None, b"bad"), (None, b"\0" * 8))
    words = ["console-consumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "3"]
    numbers = ["--property", "value.deserializer=org.apache.kafka.common.serialization.LongDeserializer"]
    out, err = consoles.run(*words, *numbers)
    assert (consoles.status, out) == (1, b"0\n")
    assert "at offset 1: LongDeserializer: 3 bytes of data" in err
    out, _ = consoles.run(*words[:-1], "2")
    assert out == b"bad\n" + b"\0" * 8 + b"\n"


def test_without_a_group_nothing_is_committed_and_the_old_is_left_out(consoles: Consoles, quick_groups: str) -> None:
    consoles.bootstrap = quick_groups
    topic = fresh("nobody")
    consoles.produce(topic, b"old\n")
    for _ in range(2):
        out, _err = consoles.run("console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "1")
        assert out == b"old\n"
    assert consoles.run("console-consumer", "--topic", topic, "--timeout-ms", "500")[0] == b""


@pytest.mark.parametrize(
    ("choice", "pattern", "expected"),
    [
        ("--include", "{0}-a|{0}-b", [b"a", b"b"]),
        ("--include", "{0}-.{{1,2}}", [b"a", b"b", b"cc"]),
        ("--whitelist", "{0}-a,{0}-cc", [b"a", b"cc"]),
        ("--blacklist", "(?!{0}).*|.*-b", [b"a", b"cc"]),
    ],
)
def test_topics_are_chosen_by_pattern(
    consoles: Consoles, quick_groups: str, choice: str, pattern: str, expected: list[bytes]
) -> None:
    consoles.bootstrap = quick_groups
    name = fresh("chosen")
    for end in ("a", "b", "cc"):
        consoles.produce(f"{name}-{end}", end.encode() + b"\n")
    out, _ = consoles.run(
        "console-consumer", choice, pattern.format(name), "--from-beginning", "--max-messages", str(len(expected))
    )
    assert sorted(out.split()) == expected


def test_topics_that_come_later_are_found(consoles: Consoles, quick_groups: str) -> None:
    consoles.bootstrap = quick_groups
    name = fresh("later")
    words = [sys.executable, "-m", "ottla.cli", "console-consumer", "--include", f"{name}.*", "--from-beginning"]
    words += ["--consumer-property", "metadata.max.age.ms=200", "--max-messages", "2"]
    environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVER": quick_groups}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        consoles.produce(f"{name}-1", b"first\n")
        assert process.stdout.readline() == b"first\n"
        consoles.produce(f"{name}-2", b"second\n")
        assert process.stdout.readline() == b"second\n"
        assert process.wait(30) == 0
