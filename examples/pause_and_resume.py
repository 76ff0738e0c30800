"""Wait for the world around, and stay a member: retry a record while its partition is paused.

When record 30 fails because a database is down, 31 must not be committed, as that would commit 30 too. So the partition
is paused and the record tried again every now and then. poll() goes on meanwhile: the group sees a member that lives,
and other partitions move on. Use it where the order matters, or where later records would fail as well.
"""

import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from arguments import options
from running import Running


class Unavailable(Exception):
    """The world around is not there now; the record is not to blame."""


def process(message: Message) -> None:
    """As long as a file with the name of the customer is there, nothing can be done for that customer."""
    if Path(message.key().decode()).exists():
        raise Unavailable(message.key().decode())
    print(f"partition {message.partition()}, offset {message.offset()}: {message.value().decode()}", flush=True)


def main() -> None:
    wanted = options(__doc__, topic="CustomerVisits", group="pause-and-resume", pause=1.0)
    consumer = Consumer(
        {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **wanted.property,
        }
    )
    waiting: dict[tuple[str, int], Message] = {}  # the record of each partition that is paused

    def work(message: Message) -> None:
        place = message.topic(), message.partition()
        try:
            process(message)
        except Unavailable:
            if place not in waiting:
                print(f"partition {message.partition()}, paused at offset {message.offset()}", flush=True)
                consumer.pause([TopicPartition(*place)])
                waiting[place] = message
            return
        consumer.commit(message, asynchronous=True)
        if waiting.pop(place, None):
            consumer.resume([TopicPartition(*place)])

    def forget(_: Consumer, partitions: list[TopicPartition]) -> None:
        """Partitions that go to others take their records with them."""
        for one in partitions:
            waiting.pop((one.topic, one.partition), None)
        consumer.resume(partitions)  # should they come back: a pause outlives the assignment

    consumer.subscribe([wanted.topic], on_revoke=forget, on_lost=forget)
    running = Running()
    tried = time.monotonic()
    try:
        while running:
            message = consumer.poll(wanted.pause)
            if message is not None:
                if message.error():
                    raise KafkaException(message.error())
                work(message)
            if time.monotonic() - tried > wanted.pause:
                for one in list(waiting.values()):
                    work(one)
                tried = time.monotonic()
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
