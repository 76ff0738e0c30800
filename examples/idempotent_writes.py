"""Write to a store in such a way that the same record can come twice.

Each row has a key that follows from the record alone: here where it stands (topic, partition, offset); an id inside
the record does it as well. Then at-least-once is enough: what comes again after a crash finds its row there. Use it
with stores that have keys and no transactions. Duplicates that a producer made have offsets of their own, and stay.
"""

import sqlite3

from confluent_kafka import Consumer, KafkaException, Message

from arguments import options
from running import Running

TABLE = """
CREATE TABLE IF NOT EXISTS visits
    (topic TEXT, partition INTEGER, "offset" INTEGER, customer TEXT, PRIMARY KEY (topic, partition, "offset"))
"""


def process(database: sqlite3.Connection, message: Message) -> None:
    row = message.topic(), message.partition(), message.offset(), message.value().decode()
    with database:
        added = database.execute("INSERT OR IGNORE INTO visits VALUES (?, ?, ?, ?)", row).rowcount
    print(f"offset {message.offset()}: {'written' if added else 'is there already'}", flush=True)


def main() -> None:
    wanted = options(__doc__, topic="CustomerVisits", group="idempotent-writes", database="visits.sqlite")
    database = sqlite3.connect(wanted.database)
    database.execute(TABLE)
    consumer = Consumer(
        {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **wanted.property,
        }
    )
    consumer.subscribe([wanted.topic])
    running = Running()
    try:
        while running:
            batch = consumer.consume(100, timeout=1.0)
            for message in batch:
                if message.error():
                    raise KafkaException(message.error())
                process(database, message)
            if batch:
                consumer.commit(asynchronous=False)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
