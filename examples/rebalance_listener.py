"""Commit what was processed before partitions go to another member of the group.

Members come and go, and partitions move. Who commits only now and then would leave the next owner all records since
the last commit. The listener is called inside poll(), before partitions are given up: the last moment to commit for
them, and to finish what else depends on owning them (files, connections, buffers).

Partitions can also be lost without a chance to finish, when the group believed this member dead. Then somebody else
may be at work on them already, and a commit would be refused; what was not committed will be done twice.
"""

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from arguments import options
from running import Running


class HandleRebalance:
    """Keeps the positions that are not committed yet; its methods are the listener."""

    def __init__(self) -> None:
        self.positions: dict[tuple[str, int], TopicPartition] = {}

    def processed(self, message: Message) -> None:
        place = message.topic(), message.partition()
        self.positions[place] = TopicPartition(*place, message.offset() + 1)

    def commit(self, consumer: Consumer) -> None:
        if self.positions:
            consumer.commit(offsets=list(self.positions.values()), asynchronous=False)
            self.positions.clear()

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        print(f"assigned {sorted(one.partition for one in partitions)}", flush=True)

    def on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.commit(consumer)
        print(f"revoked {sorted(one.partition for one in partitions)}", flush=True)

    def on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.positions.clear()
        print(f"lost {sorted(one.partition for one in partitions)}", flush=True)


def process(message: Message) -> None:
    print(f"partition {message.partition()}, offset {message.offset()}: {message.value().decode()}", flush=True)


def main() -> None:
    wanted = options(__doc__, topic="CustomerCountry", group="rebalance-listener", every=1000)
    consumer = Consumer(
        {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **wanted.property,
        }
    )
    handle = HandleRebalance()
    consumer.subscribe([wanted.topic], on_assign=handle.on_assign, on_revoke=handle.on_revoke, on_lost=handle.on_lost)
    count = 0
    running = Running()
    try:
        while running:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            process(message)
            handle.processed(message)
            count += 1
            if count % wanted.every == 0:
                handle.commit(consumer)
    finally:
        consumer.close()  # calls the listener, too


if __name__ == "__main__":
    main()
