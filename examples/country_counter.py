"""Count customers by country, in a group that shares the work. The client commits by itself.

Each record of the topic has a customer as its key and a country as its value. Start the program twice, and each of the
two counts the records of its half of the partitions.

Auto commit is the least work: every 5 seconds (`auto.commit.interval.ms`), and at the end. Use it where it does no
harm to see a few records twice: after a crash all those since the last commit come again. `store_offsets` after the
work, and not the client's default of storing before it, keeps the record in hand from being lost.
"""

import json
from collections import Counter

from confluent_kafka import Consumer, KafkaException, Message

from arguments import options
from running import Running

countries: Counter[str] = Counter()


def process(message: Message) -> None:
    countries[message.value().decode()] += 1
    print(json.dumps(countries), flush=True)


def main() -> None:
    wanted = options(__doc__, topic="CustomerCountry", group="CountryCounter")
    consumer = Consumer(
        {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "auto.offset.reset": "earliest",  # a new group begins with what is there already
            "enable.auto.commit": True,
            "enable.auto.offset.store": False,
            **wanted.property,
        }
    )
    consumer.subscribe([wanted.topic])
    running = Running()
    try:
        while running:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            process(message)
            consumer.store_offsets(message)
    finally:
        consumer.close()  # commits, and leaves the group, so that others take over at once


if __name__ == "__main__":
    main()
