"""Work that takes longer than the group has patience: in a thread, with the consumer paused but polling.

A consumer that does not call poll() for `max.poll.interval.ms` (5 minutes) is taken out of the group, and its records
go to another member, which takes as long. So the work is done elsewhere: all partitions are paused, which makes poll()
return nothing, and resumed when the work is done. When partitions go to another member, the work is finished first.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from arguments import options
from running import Running


def process(message: Message) -> None:
    """Takes as many seconds as the record says."""
    time.sleep(float(message.value()))
    print(f"partition {message.partition()}, offset {message.offset()}: done", flush=True)


def main() -> None:
    wanted = options(__doc__, topic="jobs", group="long-processing")
    consumer = Consumer(
        {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **wanted.property,
        }
    )
    threads = ThreadPoolExecutor(max_workers=1)
    in_hand: tuple[Message, Future[None]] | None = None

    def finish() -> None:
        """Wait for the work in hand, and commit it."""
        nonlocal in_hand
        if in_hand is not None:
            message, work = in_hand
            work.result()  # raises what the work has raised
            consumer.commit(message, asynchronous=False)
            in_hand = None

    def on_revoke(_: Consumer, partitions: list[TopicPartition]) -> None:
        print("giving partitions up", flush=True)
        finish()
        consumer.resume(partitions)  # should they come back: a pause outlives the assignment

    def on_lost(_: Consumer, partitions: list[TopicPartition]) -> None:
        nonlocal in_hand
        in_hand = None  # somebody else does it again
        consumer.resume(partitions)

    consumer.subscribe([wanted.topic], on_revoke=on_revoke, on_lost=on_lost)
    running = Running()
    try:
        while running:
            message = consumer.poll(0.1)
            if in_hand is not None and in_hand[1].done():
                finish()
                consumer.resume(consumer.assignment())
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            finish()  # only after an assignment, whose partitions are not paused
            in_hand = message, threads.submit(process, message)
            consumer.pause(consumer.assignment())
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
