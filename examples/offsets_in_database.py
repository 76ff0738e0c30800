"""Results and offsets in one database, written in one transaction: each record counts exactly once.

Where the results go to a database, it can keep the offsets as well. Either both are there or neither is, whenever the
program dies. On every assignment the consumer goes to the database's offsets; those of the group are not used.

A member that was frozen while another took over its partitions could still write when it wakes up. So an offset moves
on only from where this member has left it; where it has not stayed there, the whole transaction is taken back.
"""

import sqlite3

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from arguments import options
from running import Running

TABLES = """
CREATE TABLE IF NOT EXISTS customers (country TEXT PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (topic TEXT, partition INTEGER, next INTEGER, PRIMARY KEY (topic, partition));
"""


class NotOurs(Exception):
    """Somebody else has gone on with the partition."""


class Store:
    def __init__(self, file: str) -> None:
        self.database = sqlite3.connect(file, isolation_level="IMMEDIATE")
        self.database.executescript(TABLES)
        self.positions: dict[tuple[str, int], int] = {}  # where this member has left each partition; 0: untouched

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Begin where the database says."""
        for one in partitions:
            row = self.database.execute(
                "SELECT next FROM offsets WHERE topic = ? AND partition = ?", (one.topic, one.partition)
            ).fetchone()
            one.offset = row[0] if row else OFFSET_BEGINNING
            self.positions[one.topic, one.partition] = row[0] if row else 0
        consumer.assign(partitions)  # with group.protocol=consumer: incremental_assign
        print("assigned", flush=True)

    def save(self, message: Message) -> None:
        """The record's result and its offset, or neither."""
        place = message.topic(), message.partition()
        with self.database:  # commits at its end, or rolls back
            process(self.database, message)
            moved = self.database.execute(
                "INSERT INTO offsets VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET next = excluded.next WHERE next = ?",
                (*place, message.offset() + 1, self.positions[place]),
            )
            if moved.rowcount != 1:
                raise NotOurs
        self.positions[place] = message.offset() + 1


def process(database: sqlite3.Connection, message: Message) -> None:
    database.execute(
        "INSERT INTO customers VALUES (?, 1) ON CONFLICT DO UPDATE SET count = count + 1", (message.value().decode(),)
    )


def main() -> None:
    wanted = options(__doc__, topic="CustomerCountry", group="offsets-in-database", database="countries.sqlite")
    store = Store(wanted.database)
    consumer = Consumer(
        {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "enable.auto.commit": False,
            **wanted.property,
        }
    )
    consumer.subscribe([wanted.topic], on_assign=store.on_assign)
    running = Running()
    try:
        while running:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            try:
                store.save(message)
                print(f"partition {message.partition()}, offset {message.offset()}: saved", flush=True)
            except NotOurs:
                print(f"partition {message.partition()}, offset {message.offset()}: not ours any more", flush=True)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
