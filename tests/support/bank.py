"""Accounts, workers that move money between them (support/mover.py), and somebody who kills and freezes everything.

Each chain of requests moves a coin from account to account, hop by hop. In the end every hop of every chain must have
been made once: one debit and one credit. What was seen on the way is judged by support/history.py.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from confluent_kafka import Consumer, Producer

from ottla.testing import BrokerProcess
from support.history import Anomaly, check, read
from support.mover import HASTY, LEDGER, PARTITIONS, REQUESTS, Notes
from support.transactional import committed_records, end_offset
from support.wire import TIMEOUT, Wire

BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "2",
}
TESTS = Path(__file__).resolve().parents[1]
FROZEN = 2.5  # seconds: longer than a worker's session, shorter than its transaction may be open


class Bank:
    """`seed` decides what happens; the rest is the machine's mood."""

    def __init__(self, broker: BrokerProcess, directory: Path, *, workers: int, seed: int) -> None:
        self.broker = broker
        self.directory = directory
        self.chance = random.Random(seed)
        self.chains = 0
        self.hops = 0
        self.faults: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()  # why workers ended
        self._notes = Notes(directory, "bank")
        self._workers: dict[str, subprocess.Popen[str] | None] = {f"mover-{at}": None for at in range(workers)}
        self._frozen: list[threading.Timer] = []
        self._stop = threading.Event()
        wire = self._wire()
        wire.create(REQUESTS, PARTITIONS)
        wire.create(LEDGER, PARTITIONS)
        wire.close()
        self._observer = threading.Thread(target=self._observe)
        self._observer.start()
        self._producer = Producer(
            {**HASTY, "bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "message.timeout.ms": 120_000}
        )

    def _wire(self) -> Wire:
        return Wire("127.0.0.1", self.broker.port)

    # -- work

    def order(self, chains: int, hops: int) -> None:
        """More coins to move."""
        for chain in range(self.chains, self.chains + chains):
            value, partition = f"{chain}.0.{hops}@bank", chain % PARTITIONS
            self._notes.note("send", txn=None, process="bank", place=[REQUESTS, partition], value=value)

            def delivered(error: Any, message: Any, value: str = value, partition: int = partition) -> None:
                assert error is None, error
                record = [REQUESTS, partition, message.offset(), value]
                self._notes.note("sent", txn=None, process="bank", record=record)

            self._producer.produce(REQUESTS, value, partition=partition, on_delivery=delivered)
        self.chains += chains
        self.hops += chains * hops
        self._producer.poll(0)

    def tend(self) -> None:
        """Start workers where there are none."""
        for name, worker in self._workers.items():
            if worker is not None and worker.poll() is not None:
                self.ends[(worker.communicate()[1] or "killed").strip().rpartition("\n")[2][:200]] += 1
                worker = None
            if worker is None:
                self._workers[name] = self._start(name)

    def _start(self, name: str) -> subprocess.Popen[str]:
        version = 1 + int(name[-1]) % 2  # of transactions
        words = [self.broker.bootstrap, self.directory, name, version, self.chance.randrange(1 << 30)]
        return subprocess.Popen(
            [sys.executable, "-m", "support.mover", *map(str, words)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])},
            stderr=subprocess.PIPE,
            text=True,
        )

    def _observe(self) -> None:
        """Somebody who only reads, all the time."""
        notes = Notes(self.directory, "observer")
        consumer = Consumer(
            {
                **HASTY,
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": "observers",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
            }
        )
        moved: Callable[..., None] = lambda *_: notes.note("moved", reader="observer")  # noqa: E731
        consumer.subscribe([LEDGER, REQUESTS], on_assign=moved, on_revoke=moved, on_lost=moved)
        while not self._stop.is_set():
            messages = [one for one in consumer.consume(100, 0.1) if not one.error()]
            if messages:
                records = [[one.topic(), one.partition(), one.offset(), one.value().decode()] for one in messages]
                notes.note("poll", reader="observer", txn=None, records=records)
        consumer.close()

    # -- faults

    def fault(self) -> None:
        """Something happens."""
        kind = self.chance.choice(["kill worker", "freeze worker", "kill worker", "kill broker", "freeze broker"])
        alive = {name: one for name, one in self._workers.items() if one is not None and one.poll() is None}
        self.faults[kind] += 1
        if kind == "kill broker":
            if alive:
                self._catch(self.chance.choice(sorted(alive)), "offsets")
            self.broker.kill()
            self.broker.start()
        elif kind == "freeze broker":
            os.kill(self.broker.pid, signal.SIGSTOP)
            sleep(self.chance.choice((0.3, 1.2)))
            os.kill(self.broker.pid, signal.SIGCONT)
        elif alive:
            name, worker = self.chance.choice(sorted(alive.items()))
            if self.chance.random() < 0.7:
                self._catch(name, "send", "sent", "offsets")
            if kind == "kill worker":
                worker.kill()
            else:
                self._freeze(worker)

    def _catch(self, name: str, *ops: str) -> None:
        """Wait until a worker is in the middle of a transaction, where it has noted one of `ops`; but not for long."""
        deadline = monotonic() + 0.5
        while monotonic() < deadline:
            notes = max(self.directory.glob(f"{name}-*.jsonl"), key=lambda path: path.stat().st_mtime, default=None)
            if notes is not None and _last_op(notes) in ops:
                return
            sleep(0.001)

    def _freeze(self, worker: subprocess.Popen[str]) -> None:
        """Stop a worker until its group has given it up; others go on meanwhile."""
        worker.send_signal(signal.SIGSTOP)
        timer = threading.Timer(FROZEN, worker.send_signal, [signal.SIGCONT])
        timer.start()
        self._frozen.append(timer)
        sleep(0.3)

    # -- the end

    def entries(self) -> Counter[str]:
        """How often each entry is in the ledger: "chain.hop.kind"."""
        found: Counter[str] = Counter()
        wire = self._wire()
        for partition in range(PARTITIONS):
            found.update(value.partition("@")[0] for _, value in committed_records(wire, LEDGER, partition))
        wire.close()
        return found

    def finish(self, seconds: float) -> None:
        """Wait until all money is where it belongs, then stop everything and write down what is there."""
        deadline = monotonic() + seconds
        while self.entries().total() < 2 * self.hops and monotonic() < deadline:
            self.tend()
            self._producer.poll(0.2)
        self._producer.flush(10)
        self.close()
        wire = self._wire()
        places = [(topic, partition) for topic in (REQUESTS, LEDGER) for partition in range(PARTITIONS)]
        while any(end_offset(wire, *place) < end_offset(wire, *place, committed=False) for place in places):
            assert monotonic() < deadline + TIMEOUT, "a transaction is still open"
            sleep(0.01)
        for place in places:
            records = [[*place, *one] for one in committed_records(wire, *place)]
            self._notes.note("final", place=place, records=records)
        wire.close()

    def close(self) -> None:
        self._stop.set()
        self._observer.join()
        for timer in self._frozen:
            timer.cancel()
        workers = [worker for worker in self._workers.values() if worker is not None]
        self._workers.clear()
        for worker in workers:
            worker.kill()
            worker.communicate()

    def judge(self) -> tuple[list[Anomaly], dict[str, int]]:
        """Anomalies, with those of the accounts; and how many transactions ended how."""
        history = read(self.directory)
        found = check(history)
        entries = self.entries()
        wanted = dict.fromkeys(self._wanted(history), 1)
        for entry in wanted.keys() | entries.keys():
            if entries[entry] != wanted.get(entry, 0):
                found.append(Anomaly("accounts", f"{entry} is there {entries[entry]} times"))
        balance = sum(count if entry.endswith("credit") else -count for entry, count in entries.items())
        if balance:
            found.append(Anomaly("accounts", f"the sum of all is {balance}"))
        return found, dict(Counter(event["op"] for event in history))

    def _wanted(self, history: list[Any]) -> list[str]:
        orders = [event["value"] for event in history if event["op"] == "send" and event["txn"] is None]
        wanted = []
        for order in orders:
            chain, _, hops = order.partition("@")[0].split(".")
            wanted += [f"{chain}.{hop}.{kind}" for hop in range(int(hops)) for kind in ("debit", "credit")]
        return wanted


def _last_op(notes: Path) -> str:
    with notes.open("rb") as file:
        file.seek(max(0, notes.stat().st_size - 4000))
        return file.read().rpartition(b'{"op": "')[2].partition(b'"')[0].decode()
