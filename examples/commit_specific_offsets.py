"""Commit in the middle of a large batch: every so many records, with the offsets that the program keeps itself.

Use it where batches are large and a crash should not bring all of one again. A committed offset is that of the next
record to be read: the one processed, and 1.
"""

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from arguments import options
from running import Running


def process(message: Message) -> None:
    print(f"partition {message.partition()}, offset {message.offset()}: {message.value().decode()}", flush=True)


def main() -> None:
    wanted = options(__doc__, topic="CustomerCountry", group="commit-specific-offsets", batch=5000, every=1000)
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
    positions: dict[tuple[str, int], TopicPartition] = {}
    count = 0
    running = Running()
    try:
        while running:
            for message in consumer.consume(wanted.batch, timeout=1.0):
                if message.error():
                    raise KafkaException(message.error())
                process(message)
                place = message.topic(), message.partition()
                positions[place] = TopicPartition(*place, message.offset() + 1, metadata="examples")
                count += 1
                if count % wanted.every == 0:
                    consumer.commit(offsets=list(positions.values()), asynchronous=False)
                    positions.clear()
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
