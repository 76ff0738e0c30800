"""The exactly-once patterns, with programs that die, freeze and run twice in the worst moment: before the commit."""

import json
import signal
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.testing import BrokerProcess
from support.consoles import fresh
from support.example_topics import ATTENTIVE, SHORT_SESSION, Topic, values
from support.programs import Program
from support.waiting import wait_until

Start = Callable[..., Program]

# the COUNTth call of METHOD: all records of the transaction are in the log, then the signal comes
AT_THE_WORST = """
import os, signal
class Producer(example.Producer):
    calls = 0
    def METHOD(self, *given):
        self.calls += 1
        if self.calls == COUNT:
            self.flush()
            os.kill(os.getpid(), signal.SIGNAL)
        return super().METHOD(*given)
example.Producer = Producer
"""


def at_the_worst(number: signal.Signals, method: str = "commit_transaction", count: int = 1) -> str:
    return AT_THE_WORST.replace("METHOD", method).replace("COUNT", str(count)).replace("SIGNAL", number.name)


# -- from topic to topic -------------------------------------------------------------------------------------------


@pytest.fixture
def output(topic: Topic) -> Topic:
    return Topic(topic.bootstrap, 1)


def upper(start: Start, topic: Topic, output: Topic, name: str, *words: str, twist: str = "") -> Program:
    own = ("--output", output.name, "--transactional-id", f"{topic.name}-{name}", "--batch", "2")
    return start("consume_process_produce", *topic.options, *own, *words, twist=twist)


def test_each_word_is_written_once_though_the_program_dies_before_its_commit(
    topic: Topic, output: Topic, start: Start
) -> None:
    topic.send("a", "b", "c", "d", "e")
    for count in (1, 2):
        dying = upper(start, topic, output, "1", *SHORT_SESSION, twist=at_the_worst(signal.SIGKILL, count=count))
        dying.end(-signal.SIGKILL)
    assert output.values() == ["A", "B"]
    program = upper(start, topic, output, "1", *ATTENTIVE)
    wait_until(lambda: len(output.values()) >= 5)
    program.interrupt()
    assert output.values() == ["A", "B", "C", "D", "E"]
    assert output.values(isolation="read_uncommitted") == ["A", "B", "A", "B", "C", "D", "C", "D", "E"]
    assert topic.committed() == 5


def test_a_program_that_wakes_up_after_its_successor_has_come_is_fenced(
    topic: Topic, output: Topic, start: Start
) -> None:
    topic.send("a", "b")
    frozen = upper(start, topic, output, "1", *SHORT_SESSION, twist=at_the_worst(signal.SIGSTOP))
    frozen.until_frozen()
    successor = upper(start, topic, output, "1", *ATTENTIVE)
    successor.until("committed")
    frozen.thaw()
    frozen.end(1)
    assert "FENCED" in frozen.errors[-1]
    successor.interrupt()
    assert output.values() == ["A", "B"]


def test_a_member_that_was_given_up_cannot_commit_offsets_under_another_id(
    topic: Topic, output: Topic, start: Start
) -> None:
    topic.send("a", "b")
    frozen = upper(
        start, topic, output, "1", *SHORT_SESSION, twist=at_the_worst(signal.SIGSTOP, "send_offsets_to_transaction")
    )
    frozen.until_frozen()
    other = upper(start, topic, output, "2", *ATTENTIVE)
    other.until("committed")
    frozen.thaw()
    frozen.until("aborted")
    topic.send("c")
    wait_until(lambda: len(output.values()) >= 3)
    frozen.interrupt()
    other.interrupt()
    assert output.values() == ["A", "B", "C"]


def test_an_average_goes_on_with_its_state_after_a_crash(topic: Topic, output: Topic, start: Start) -> None:
    topic.send("1", "2", "6", "10")
    own = ("--results", output.name, "--transactional-id", topic.name, *SHORT_SESSION)
    start("moving_average", *topic.options, *own, twist=at_the_worst(signal.SIGKILL, count=3)).end(-signal.SIGKILL)
    program = start("moving_average", *topic.options, *own)
    program.until("offset 3")
    program.interrupt()
    assert program.lines == ["offset 2: 3", "offset 3: 6"]
    assert [json.loads(value)["average"] for value in output.values()] == [1, 1.5, 3, 6]


# -- accounts ------------------------------------------------------------------------------------------------------


class Bank:
    def __init__(self, bootstrap: str, start: Start) -> None:
        self._start = start
        self.topic = Topic(bootstrap, 1)
        self._own = ("--bootstrap", bootstrap, "--topic", self.topic.name, "--transactional-id", self.topic.name)

    def transfer(self, of: str, to: str, amount: int, twist: str = "") -> Program:
        words = ("--of", of, "--to", to, "--amount", str(amount))
        return self._start("transfer", *self._own, *words, twist=twist)


@pytest.fixture
def bank(broker: BrokerProcess, start: Start) -> Bank:
    bank = Bank(broker.bootstrap, start)
    assert bank.transfer("outside", "anna", 100).end() == ["anna: 100", "outside: -100"]
    return bank


def test_money_moves(bank: Bank) -> None:
    assert bank.transfer("anna", "berta", 30).end() == ["anna: 70", "berta: 30", "outside: -100"]


def test_nobody_is_overdrawn(bank: Bank) -> None:
    overdrawn = bank.transfer("anna", "berta", 101)
    overdrawn.end(1)
    assert overdrawn.errors[-1] == "refused: anna has only 100"
    assert bank.topic.values() == ["-100", "100"]


def test_half_a_transfer_is_never_seen(bank: Bank) -> None:
    aborted = bank.transfer("anna", "no-such-name", 30)
    aborted.end(1)
    assert aborted.errors[-1] == "refused: 'no-such-name' is no name of an account"
    assert bank.topic.values(isolation="read_uncommitted") == ["-100", "100", "-30"]
    assert bank.topic.values() == ["-100", "100"]


def test_a_transfer_that_dies_in_the_middle_is_undone_by_the_next(bank: Bank) -> None:
    bank.transfer("anna", "berta", 30, twist=at_the_worst(signal.SIGKILL)).end(-signal.SIGKILL)
    assert bank.topic.values() == ["-100", "100"]
    assert bank.topic.values(isolation="read_uncommitted") == ["-100", "100", "-30", "30"]
    assert bank.transfer("anna", "berta", 1).end() == ["anna: 99", "berta: 1", "outside: -100"]


def test_a_transfer_that_was_overtaken_is_not_done(bank: Bank) -> None:
    frozen = bank.transfer("anna", "berta", 60, twist=at_the_worst(signal.SIGSTOP))
    frozen.until_frozen()
    assert bank.transfer("anna", "carla", 60).end() == ["anna: 40", "carla: 60", "outside: -100"]
    frozen.thaw()
    frozen.end(1)
    assert frozen.errors[-1] == "not done: _FENCED"
    assert bank.transfer("anna", "carla", 40).end() == ["anna: 0", "carla: 100", "outside: -100"]


def test_transfers_at_the_same_time_keep_the_sum(bank: Bank) -> None:
    programs = [bank.transfer("anna", name, 60) for name in ("berta", "carla", "dora")]
    for program in programs:
        program.process.wait(60)
    values = [int(value) for value in bank.topic.values()]
    assert sum(values) == 0
    assert values.count(60) <= 1  # anna has only 100


# -- payments by card ----------------------------------------------------------------------------------------------


def test_each_payment_has_one_answer_though_the_rules_engine_dies(
    broker: BrokerProcess, start: Start, tmp_path: Path
) -> None:
    prefix, file = fresh("card") + "-", tmp_path / "ledger"
    options = ("--bootstrap", broker.bootstrap, "--prefix", prefix)
    ledger = start("credit_card", *options, "--role", "ledger", "--database", str(file))
    engine = ("credit_card", *options, "--role", "rules", *SHORT_SESSION)
    dying = start(*engine, twist=at_the_worst(signal.SIGKILL, count=3))
    store = start("credit_card", *options, "--role", "store", "--payments", "6")
    dying.end(-signal.SIGKILL)
    rules = start(*engine)
    expected = {(f"card-{number}", number * 300, "approved" if number < 4 else "declined") for number in range(6)}
    said = {f"{card} pays {amount}: {answer}" for card, amount, answer in expected}
    assert {line for line in store.end() if "pays" in line} == said

    def entered() -> list[tuple[str, int, str]]:
        with suppress(sqlite3.OperationalError):  # the ledger has not begun
            return sqlite3.connect(file).execute("SELECT card, amount, answer FROM payments").fetchall()
        return []

    wait_until(lambda: set(entered()) == expected)
    assert len(entered()) == 6
    assert len(values(broker.bootstrap, f"{prefix}approvals")) == 6
    assert len(values(broker.bootstrap, f"{prefix}approvals", "read_uncommitted")) == 7  # one was aborted
    rules.interrupt()
    ledger.interrupt()


def test_a_role_that_there_is_not_is_told(start: Start) -> None:
    nobody = start("credit_card", "--role", "thief")
    nobody.end(1)
    assert nobody.errors == ["--role thief: store, rules or ledger is wanted"]
