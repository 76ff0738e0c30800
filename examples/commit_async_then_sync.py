"""Commit without waiting while all goes well, and wait for the last commit.

A lost commit does no harm as long as a next one follows. After the last there is none, so the end of the program waits
for the broker. The usual choice where commits are made by hand.
"""

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from arguments import options
from running import Running


def process(message: Message) -> None:
    print(f"partition {message.partition()}, offset {message.offset()}: {message.value().decode()}", flush=True)


def main() -> None:
    wanted = options(__doc__, topic="CustomerCountry", group="commit-async-then-sync", batch=100)
    consumer = Consumer(
        {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,  # commit() takes what was processed, not what was handed out
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
                consumer.store_offsets(message)
            if batch:
                consumer.commit(asynchronous=True)
    finally:
        try:
            consumer.commit(asynchronous=False)
            print("the last commit is there", flush=True)
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError._NO_OFFSET:  # nothing was processed since
                print(f"the last commit failed: {problem.args[0].name()}", flush=True)
        finally:
            consumer.close()


if __name__ == "__main__":
    main()
