"""A small engine for the harness of streams: a program that copies one topic to another in upper case.

python upper_case.py BOOTSTRAP INPUT OUTPUT ISOLATION [WRONG]: a value that holds the text WRONG is not changed.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer


def main(bootstrap: str, source: str, target: str, isolation: str, wrong: str = "") -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "upper-case",
        "auto.offset.reset": "earliest",
        "isolation.level": isolation,
    }
    consumer, producer = Consumer(settings), Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    consumer.subscribe([source])
    while True:
        for message in consumer.consume(1000, 0.05):
            value = message.value()
            if not wrong or wrong.encode() not in value:
                value = value.upper()
            producer.produce(target, value, message.key(), message.partition())
        producer.poll(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
