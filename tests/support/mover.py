"""A worker that moves money: reads requests, writes what they do to accounts, and commits both in one transaction.

    python -m support.mover BOOTSTRAP HISTORY-DIRECTORY NAME VERSION SEED

Its producer is librdkafka's for version 1 of transactions, and support/raw_producer.py for version 2.

A request is "chain.hop" with its number of hops; whoever takes it writes a debit, a credit and the next request of the
chain, if any, so that transactions read what others wrote. It runs until it is killed. What it does is written down
before and after (support/history.py), so that the history tells of a worker that was killed too. Where a transaction
fails it is aborted and its input taken up again; where the producer cannot go on, the worker ends, and another is
started in its place, with the same transactional id.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from time import monotonic_ns, sleep
from typing import Any
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from support.raw_producer import Abortable, Fenced, RawProducer

REQUESTS, LEDGER, GROUP = "requests", "ledger", "movers"
PARTITIONS = 3
TIMEOUT_MS = 4000
ABORTS = 0.1  # of transactions, on purpose
HASTY = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 100,
    "socket.timeout.ms": 3000,
    "log_level": 0,
}
PATIENCE = 10.0


class Notes:
    """Where one process writes its part of the history."""

    def __init__(self, directory: Path, name: str) -> None:
        self._fd = os.open(directory / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, op: str, **more: Any) -> None:
        os.write(self._fd, json.dumps({"op": op, "at": monotonic_ns(), **more}).encode() + b"\n")


class Mover:
    def __init__(self, bootstrap: str, directory: Path, name: str, version: int, seed: int) -> None:
        self.process = f"{name}-{uuid4().hex[:8]}"
        self.notes = Notes(directory, self.process)
        self.chance = random.Random(seed)
        self.number = 0
        self.producer: Any = (
            RawProducer(bootstrap, name, TIMEOUT_MS)
            if version == 2
            else Producer(
                {
                    **HASTY,
                    "bootstrap.servers": bootstrap,
                    "transactional.id": name,
                    "transaction.timeout.ms": TIMEOUT_MS,
                    "linger.ms": 0,
                }
            )
        )
        self.consumer = Consumer(
            {
                **HASTY,
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 1000,
                "heartbeat.interval.ms": 200,
                "max.poll.interval.ms": 8000,
                "fetch.wait.max.ms": 50,
            }
        )

    def run(self) -> None:
        self._persist(lambda: self.producer.init_transactions(PATIENCE))
        self.consumer.subscribe([REQUESTS], on_assign=self._moved, on_revoke=self._moved, on_lost=self._moved)
        while True:
            messages = [one for one in self.consumer.consume(self.chance.choice((1, 1, 3, 8)), 0.2) if not one.error()]
            if messages:
                self._move([(one.topic(), one.partition(), one.offset(), one.value().decode()) for one in messages])

    def _moved(self, *_: Any) -> None:
        self.notes.note("moved", reader=self.process)

    def _move(self, records: list[tuple[str, int, int, str]]) -> None:
        self.number += 1
        txn = f"{self.process}.{self.number}"
        self.notes.note("poll", reader=self.process, txn=txn, records=records)
        try:
            self.notes.note("begin", txn=txn, process=self.process)
            self.producer.begin_transaction()
            for record in records:
                self._carry_out(txn, record[3])
            self._dawdle()
            ends = {(topic, partition): offset + 1 for topic, partition, offset, _ in records}
            self._persist(
                lambda: self.producer.send_offsets_to_transaction(
                    [TopicPartition(*place, offset) for place, offset in ends.items()],
                    self.consumer.consumer_group_metadata(),
                    PATIENCE,
                )
            )
            self.notes.note("offsets", txn=txn)
            self._dawdle()
            if self.chance.random() < ABORTS:
                self._abort(txn)
                return
            self.notes.note("commit", txn=txn)
            self._persist(lambda: self.producer.commit_transaction(PATIENCE))
            self.notes.note("committed", txn=txn)
        except Abortable:
            self._abort(txn)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            self._abort(txn)

    def _dawdle(self) -> None:
        """Sometimes, so that others' faults find a transaction open."""
        self.producer.flush(self.chance.choice((0, 0, 0, 0.01, 0.2)))
        sleep(self.chance.choice((0, 0, 0, 0, 0.01, 0.2)))

    def _carry_out(self, txn: str, request: str) -> None:
        chain, hop, hops = (int(part) for part in request.partition("@")[0].split("."))
        for kind, account in (("debit", chain + hop), ("credit", chain + hop + 1)):
            self._send(txn, LEDGER, account % PARTITIONS, f"{chain}.{hop}.{kind}@{txn}")
        if hop + 1 < hops:
            self._send(txn, REQUESTS, (chain + hop) % PARTITIONS, f"{chain}.{hop + 1}.{hops}@{txn}")

    def _send(self, txn: str, topic: str, partition: int, value: str) -> None:
        self.notes.note("send", txn=txn, process=self.process, place=[topic, partition], value=value)

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                record = [topic, partition, message.offset(), value]
                self.notes.note("sent", txn=txn, process=self.process, record=record)

        self.producer.produce(topic, value, partition=partition, on_delivery=delivered)

    def _abort(self, txn: str) -> None:
        self._persist(lambda: self.producer.abort_transaction(PATIENCE))
        self.notes.note("aborted", txn=txn)
        self._moved()
        for place in self._persist(lambda: self.consumer.committed(self.consumer.assignment(), PATIENCE)):
            self.consumer.seek(
                TopicPartition(place.topic, place.partition, place.offset if place.offset >= 0 else OFFSET_BEGINNING)
            )

    def _persist(self, act: Any) -> Any:
        """Try again where that helps."""
        while True:
            try:
                return act()
            except KafkaException as failure:
                if not failure.args[0].retriable() or failure.args[0].txn_requires_abort():
                    raise


if __name__ == "__main__":
    try:
        Mover(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])).run()
    except (KafkaException, Fenced) as failure:
        sys.exit(f"{sys.argv[3]}: {failure}")
