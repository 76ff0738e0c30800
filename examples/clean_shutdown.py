"""End on SIGTERM and SIGINT as a service should: finish the record in hand, commit, and leave the group.

A consumer that just ends is missed only after `session.timeout.ms` (45 seconds), and so long nobody reads its
partitions. close() tells the group at once. Signal handlers only set a flag; the loop looks at it between records, at
the latest when poll() returns.
"""

import signal
import threading

from confluent_kafka import Consumer, KafkaException, Message

from arguments import options


def process(message: Message) -> None:
    print(f"partition {message.partition()}, offset {message.offset()}: {message.value().decode()}", flush=True)


def main() -> None:
    wanted = options(__doc__, topic="CustomerCountry", group="clean-shutdown")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    consumer = Consumer(
        {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "auto.offset.reset": "earliest",
            "enable.auto.offset.store": False,
            **wanted.property,
        }
    )
    consumer.subscribe([wanted.topic])
    try:
        while not stop.is_set():
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            process(message)
            consumer.store_offsets(message)
    finally:
        consumer.close()  # commits what is stored, and leaves
        print("closed", flush=True)


if __name__ == "__main__":
    main()
