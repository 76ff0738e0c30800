"""The consumers' patterns: what is committed when, and what comes again after members leave, freeze and die."""

import json
import signal
import sqlite3
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions

from ottla.testing import BrokerProcess
from support.consoles import fresh
from support.example_topics import ATTENTIVE, SHORT_SESSION, Topic
from support.programs import Program, frozen_at, interrupted_at, killed_at
from support.waiting import wait_until

COMMITTING = ["country_counter", "commit_sync", "commit_async", "commit_async_then_sync", "clean_shutdown"]


def numbers(lines: list[str]) -> list[int]:
    """The values of records, which tests make numbers, of programs that print `partition …, offset …: VALUE`."""
    return [int(line.rpartition(" ")[2]) for line in lines if line.startswith("partition ")]


# -- commits -------------------------------------------------------------------------------------------------------


def test_countries_are_counted_and_the_next_run_goes_on(topic: Topic, start: Callable[..., Program]) -> None:
    topic.send("France", "Peru", "France")
    first = start("country_counter", *topic.options)
    assert json.loads(first.until("{", 3)[-1]) == {"France": 2, "Peru": 1}
    first.interrupt()
    topic.send("Japan")
    second = start("country_counter", *topic.options)
    assert second.until("{") == ['{"Japan": 1}']


@pytest.mark.parametrize("example", COMMITTING)
def test_all_that_was_processed_is_committed_soon(example: str, topic: Topic, start: Callable[..., Program]) -> None:
    topic.send(*map(str, range(10)))
    program = start(example, *topic.options, "--property", "auto.commit.interval.ms=100")
    program.until(lambda lines: len(lines) >= 10)
    wait_until(lambda: topic.committed() == 10)
    program.interrupt()
    assert topic.committed() == 10


@pytest.mark.parametrize(
    "example", ["country_counter", "commit_async_then_sync", "rebalance_listener", "clean_shutdown"]
)
def test_the_record_in_hand_is_finished_and_committed_at_the_end(
    example: str, topic: Topic, start: Callable[..., Program]
) -> None:
    topic.send(*map(str, range(10)))
    program = start(example, *topic.options, twist=interrupted_at("6"))
    program.end()
    done = 10 if example == "commit_async_then_sync" else 7  # it finishes the batch
    assert topic.committed() == done


@pytest.mark.parametrize("example", [*COMMITTING, "idempotent_writes"])
def test_a_crash_brings_records_again_and_loses_none(
    example: str, topic: Topic, start: Callable[..., Program], tmp_path: Path
) -> None:
    topic.send(*map(str, range(10)))
    own = ("--database", str(tmp_path / "visits")) if example == "idempotent_writes" else ()
    dying = start(example, *topic.options, *SHORT_SESSION, *own, twist=killed_at("6"))
    assert len(dying.end(-signal.SIGKILL)) == 7
    program = start(example, *topic.options, *own)
    program.until('"9": 1' if example == "country_counter" else "offset 9")
    program.interrupt()
    twice = len(program.having("offset ") or program.having("{")) - 3
    assert 0 <= twice <= 7  # none is left out
    if example == "idempotent_writes":
        assert (twice, len(program.having("is there already"))) == (7, 7)
        rows = sqlite3.connect(tmp_path / "visits").execute("SELECT customer FROM visits ORDER BY rowid").fetchall()
        assert [int(value) for (value,) in rows] == list(range(10))


def test_a_batch_is_committed_after_it_was_processed_and_not_before(
    topic: Topic, start: Callable[..., Program]
) -> None:
    topic.send(*map(str, range(10)))
    start("commit_sync", *topic.options, "--batch", "4", twist=killed_at("6")).end(-signal.SIGKILL)
    assert topic.committed() == 4


def test_a_commit_in_the_middle_of_a_batch_holds_after_a_crash(topic: Topic, start: Callable[..., Program]) -> None:
    topic.send(*map(str, range(10)))
    start("commit_specific_offsets", *topic.options, "--every", "3", twist=killed_at("7")).end(-signal.SIGKILL)
    assert topic.committed() == 6


@pytest.mark.parametrize(("example", "said"), [("commit_sync", "commit failed"), ("commit_async", "not committed")])
def test_a_member_that_was_given_up_hears_that_it_cannot_commit(
    example: str, said: str, topic: Topic, start: Callable[..., Program]
) -> None:
    topic.send("0", "1", "2")
    frozen = start(example, *topic.options, *SHORT_SESSION, twist=frozen_at("1"))
    frozen.until_frozen()
    successor = start("commit_sync", *topic.options, *ATTENTIVE, "--batch", "1")
    successor.until(": 2")  # the group has given it the partition
    frozen.thaw()
    frozen.until(said)
    frozen.interrupt()
    topic.send("3")
    wait_until(lambda: topic.committed() == 4)
    successor.interrupt()


@pytest.mark.parametrize("module", ["commit_async"], indirect=True)
def test_a_failed_commit_is_repeated_only_while_it_is_the_newest(module, capsys) -> None:
    class Sent(list):
        def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
            self.extend((one.partition, one.offset) for one in offsets)

    class Failed:
        def __init__(self, retriable: bool) -> None:
            self.retriable = lambda: retriable

    commits = module.Commits()
    commits.consumer = sent = Sent()
    commits.newest = {("t", 0): 3000, ("t", 1): 500}
    commits.done(None, [TopicPartition("t", 0, 3000)])
    commits.done(Failed(True), [TopicPartition("t", 0, 2000)])
    commits.done(Failed(False), [TopicPartition("t", 0, 3000)])
    assert sent == []
    commits.done(Failed(True), [TopicPartition("t", 0, 3000), TopicPartition("t", 1, 400)])
    assert sent == [(0, 3000)]
    assert len(capsys.readouterr().out.splitlines()) == 4


# -- rebalances ----------------------------------------------------------------------------------------------------


def test_a_second_member_goes_on_where_the_first_has_stopped(
    broker: BrokerProcess, start: Callable[..., Program]
) -> None:
    topic = Topic(broker.bootstrap, 2)
    for partition in range(2):
        topic.send(*(str(partition * 5 + at) for at in range(5)), partition=partition)
    first = start("rebalance_listener", *topic.options, *ATTENTIVE)
    first.until("partition ", 10)
    assert [topic.committed(0), topic.committed(1)] == [None, None]
    second = start("rebalance_listener", *topic.options, *ATTENTIVE)
    second.until("assigned [")
    first.until("assigned [", 2)
    assert first.having("revoked [0, 1]")
    assert [topic.committed(0), topic.committed(1)] == [5, 5]
    topic.send("10", partition=0)
    topic.send("11", partition=1)
    first.until("partition ", 11)
    second.until("partition ", 1)
    assert sorted(numbers(first.lines) + numbers(second.lines)) == list(range(12))
    second.interrupt()
    first.until(lambda lines: lines[-1] == "assigned [0, 1]")
    first.interrupt()
    assert [topic.committed(0), topic.committed(1)] == [6, 6]


def test_the_new_protocol_takes_away_only_what_goes_to_another(
    broker: BrokerProcess, start: Callable[..., Program]
) -> None:
    topic = Topic(broker.bootstrap, 2)
    for partition in range(2):
        topic.send(*(str(partition * 5 + at) for at in range(5)), partition=partition)
    members = ("rebalance_listener", *topic.options, "--property", "group.protocol=consumer")
    first = start(*members)
    first.until("partition ", 10)
    second = start(*members)
    second.until(lambda lines: any(line in ("assigned [0]", "assigned [1]") for line in lines))
    moved = int(second.lines[-1][-2])
    first.until("revoked")
    assert first.having("revoked") == [f"revoked [{moved}]"]
    assert topic.committed(moved) == 5
    for partition in range(2):
        topic.send(str(10 + partition), partition=partition)
    first.until("partition ", 11)
    second.until("partition ")
    first.interrupt()
    second.until(f"assigned [{1 - moved}]")
    second.interrupt()
    assert sorted(numbers(first.lines) + numbers(second.lines)) == list(range(12))
    assert [topic.committed(0), topic.committed(1)] == [6, 6]


@pytest.mark.parametrize("example", COMMITTING)
def test_offsets_are_committed_in_the_new_protocol_too(
    example: str, topic: Topic, start: Callable[..., Program]
) -> None:
    topic.send(*map(str, range(10)))
    quick = ("--property", "group.protocol=consumer", "--property", "auto.commit.interval.ms=100")
    program = start(example, *topic.options, *quick)
    wait_until(lambda: topic.committed() == 10)
    program.interrupt()


def test_partitions_that_were_lost_are_not_committed(topic: Topic, start: Callable[..., Program]) -> None:
    topic.send("0", "1", "2")
    frozen = start("rebalance_listener", *topic.options, *SHORT_SESSION, twist=frozen_at("1"))
    frozen.until_frozen()
    successor = start("rebalance_listener", *topic.options, *ATTENTIVE)
    successor.until(": 2")
    frozen.thaw()
    frozen.until("lost [0]")
    assert not frozen.having("revoked")
    frozen.interrupt()
    successor.interrupt()


def test_a_program_that_ends_by_a_signal_is_not_missed(topic: Topic, start: Callable[..., Program]) -> None:
    topic.send("0", "1")
    first = start("clean_shutdown", *topic.options)  # with a session of 45 seconds
    first.until("partition ", 2)
    assert first.interrupt(signal.SIGTERM)[-1] == "closed"
    state = topic.admin.describe_consumer_groups([topic.name])[topic.name].result(30)
    assert (state.state.name, state.members) == ("EMPTY", [])
    assert topic.committed() == 2


def test_the_consumers_of_a_program_share_the_partitions_of_all_topics_that_fit(
    broker: BrokerProcess, start: Callable[..., Program]
) -> None:
    prefix = fresh("visits")
    topic = Topic(broker.bootstrap, 2, name=f"{prefix}-a")
    for partition in range(2):
        topic.send(str(partition), partition=partition)
    program = start(
        "several_consumers", "--bootstrap", broker.bootstrap, "--pattern", f"^{prefix}-.*", "--group", prefix,
        *ATTENTIVE, "--property", "topic.metadata.refresh.interval.ms=200",
    )  # fmt: skip
    for partition in range(2):
        program.until(f": {topic.name}-{partition}: {partition}")

    def owned() -> list[list[str]]:
        """The last assignment of each consumer."""
        last = {line.split()[1]: literal_eval(line.partition(" has ")[2]) for line in program.having(" has ")}
        return sorted(last.values())

    wait_until(lambda: owned() == [[], [f"{topic.name}-0"], [f"{topic.name}-1"]])  # one is idle
    later = Topic(broker.bootstrap, 3, name=f"{prefix}-b")
    shares = [[f"{topic.name}-0", f"{later.name}-0"], [f"{topic.name}-1", f"{later.name}-1"], [f"{later.name}-2"]]
    wait_until(lambda: owned() == shares)
    program.interrupt()


# -- offsets in the database ---------------------------------------------------------------------------------------


def counted(file: Path) -> dict[str, int]:
    return dict(sqlite3.connect(file).execute("SELECT country, count FROM customers"))


def test_each_record_counts_once_in_the_database_however_often_the_program_dies(
    topic: Topic, start: Callable[..., Program], tmp_path: Path
) -> None:
    file = tmp_path / "countries"
    topic.send(*map(str, range(12)))
    for last in (2, 3, 8):
        dying = start(
            "offsets_in_database", *topic.options, *SHORT_SESSION, "--database", str(file), twist=killed_at(str(last))
        )
        dying.end(-signal.SIGKILL)  # the work is done, the transaction is not committed
        assert counted(file) == {str(number): 1 for number in range(last)}
    program = start("offsets_in_database", *topic.options, "--database", str(file))
    program.until("offset 11: saved")
    program.interrupt()
    assert counted(file) == {str(number): 1 for number in range(12)}
    assert topic.committed() is None  # the group's own offsets are not used


def test_a_member_that_wakes_up_writes_nothing_that_is_another_ones(
    topic: Topic, start: Callable[..., Program], tmp_path: Path
) -> None:
    file = tmp_path / "countries"
    topic.send("0", "1", "2")
    stop_after_poll = """
import os, signal
def save(self, message, save=example.Store.save):
    if message.value() == b"1":
        os.kill(os.getpid(), signal.SIGSTOP)
    save(self, message)
example.Store.save = save
"""
    options = (*topic.options, "--database", str(file))
    frozen = start("offsets_in_database", *options, *SHORT_SESSION, twist=stop_after_poll)
    frozen.until_frozen()
    successor = start("offsets_in_database", *options, *ATTENTIVE)
    successor.until("offset 2: saved")
    frozen.thaw()
    frozen.until("offset 1: not ours any more")
    frozen.interrupt()
    successor.interrupt()
    assert counted(file) == {"0": 1, "1": 1, "2": 1}


# -- without a group -----------------------------------------------------------------------------------------------


def test_a_standalone_consumer_reads_all_partitions_and_finds_new_ones(
    broker: BrokerProcess, start: Callable[..., Program]
) -> None:
    topic = Topic(broker.bootstrap, 2)
    topic.send("0", partition=0)
    topic.send("1", partition=1)
    groups = topic.name, fresh("other")
    programs = [start("standalone_consumer", *topic.options, "--refresh", "0.2", "--group", one) for one in groups]
    for program in programs:  # nobody gets a share: each reads all
        program.until("partition ", 2)
        assert program.having("reading partitions [0, 1]")
    topic.admin.create_partitions([NewPartitions(topic.name, 3)])[topic.name].result(30)
    topic.send("2", partition=2)
    for program in programs:
        program.until(": 2")
        assert sorted(numbers(program.lines)) == [0, 1, 2]
        program.interrupt()
    assert [topic.committed(index) for index in range(3)] == [1, 1, 1]


def test_a_standalone_consumer_goes_on_at_its_commit(topic: Topic, start: Callable[..., Program]) -> None:
    topic.send("0", "1")
    first = start("standalone_consumer", *topic.options)
    first.until("partition ", 2)
    first.interrupt()
    topic.send("2")
    second = start("standalone_consumer", *topic.options)
    second.until("partition ")
    second.interrupt()
    assert numbers(second.lines) == [2]
