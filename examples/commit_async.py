"""Commit after each record, and do not wait. A callback hears of failures.

Fast, and nearly as safe as waiting, since the next commit covers a lost one. But a failed commit must not simply be
sent again: a newer one may have succeeded meanwhile, and 2000 after 3000 would bring 1000 records again after a crash.
So a commit is repeated only while it is the newest of its partition.
"""

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from arguments import options
from running import Running


class Commits:
    """Sends commits, and repeats those that failed and are still the newest."""

    def __init__(self) -> None:
        self.consumer: Consumer | None = None  # is made with `done`, so it comes later
        self.newest: dict[tuple[str, int], int] = {}

    def send(self, message: Message) -> None:
        position = TopicPartition(message.topic(), message.partition(), message.offset() + 1)  # the next to be read
        self.newest[position.topic, position.partition] = position.offset
        self.consumer.commit(offsets=[position], asynchronous=True)

    def done(self, error: KafkaError | None, positions: list[TopicPartition]) -> None:
        """Called by poll(), once for each commit."""
        if error is None:
            return
        for position in positions:
            print(f"not committed: offset {position.offset} of partition {position.partition}: {error}", flush=True)
            if error.retriable() and self.newest.get((position.topic, position.partition)) == position.offset:
                self.consumer.commit(offsets=[position], asynchronous=True)


def process(message: Message) -> None:
    print(f"partition {message.partition()}, offset {message.offset()}: {message.value().decode()}", flush=True)


def main() -> None:
    wanted = options(__doc__, topic="CustomerCountry", group="commit-async")
    commits = Commits()
    commits.consumer = consumer = Consumer(
        {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "on_commit": commits.done,
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
            commits.send(message)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
