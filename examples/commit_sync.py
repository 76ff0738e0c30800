"""Commit after each batch, and wait until the broker has it.

Nothing is lost: an offset is committed when its record was processed, never before. A crash between the two brings the
batch again (at least once). The wait costs a round trip per batch; the larger the batch, the less it matters.

A commit fails for good when the group has given the partitions to somebody else meanwhile, say because the batch took
longer than `max.poll.interval.ms`. The new owner processes the batch again, so all that is left is to tell.
"""

from confluent_kafka import Consumer, KafkaException, Message

from arguments import options
from running import Running


def process(message: Message) -> None:
    print(f"partition {message.partition()}, offset {message.offset()}: {message.value().decode()}", flush=True)


def main() -> None:
    wanted = options(__doc__, topic="CustomerCountry", group="commit-sync", batch=100)
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
            batch = consumer.consume(wanted.batch, timeout=1.0)
            for message in batch:
                if message.error():
                    raise KafkaException(message.error())
                process(message)
            if batch:
                try:
                    consumer.commit(asynchronous=False)
                except KafkaException as problem:
                    print(f"commit failed: {problem.args[0].name()}", flush=True)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
