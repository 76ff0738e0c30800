"""Read all partitions of a topic alone, without a group.

assign() in place of subscribe(): nobody else gets a share, nothing is ever rebalanced. Use it for a program of which
there is only one, or where something else says who reads what. Offsets can still be committed, under the group's name.
Nobody tells of partitions that are added, so the program looks for them now and then.
"""

import time

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from arguments import options
from running import Running


def process(message: Message) -> None:
    print(f"partition {message.partition()}, offset {message.offset()}: {message.value().decode()}", flush=True)


def partitions_of(consumer: Consumer, topic: str) -> set[int]:
    found = consumer.list_topics(topic, timeout=30).topics[topic]
    if found.error:
        raise KafkaException(found.error)
    return set(found.partitions)


def main() -> None:
    wanted = options(__doc__, topic="CustomerCountry", group="standalone-consumer", refresh=60.0)
    consumer = Consumer(
        {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "auto.offset.reset": "earliest",  # where nothing is committed
            "enable.auto.commit": False,
            **wanted.property,
        }
    )
    assigned: set[int] = set()
    looked = float("-inf")
    running = Running()
    try:
        while running:
            if time.monotonic() - looked > wanted.refresh:
                new = partitions_of(consumer, wanted.topic) - assigned
                if new:
                    consumer.incremental_assign([TopicPartition(wanted.topic, one) for one in new])
                    assigned |= new
                    print(f"reading partitions {sorted(assigned)}", flush=True)
                looked = time.monotonic()
            message = consumer.poll(min(1.0, wanted.refresh))
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            process(message)
            consumer.commit(message, asynchronous=True)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
