"""Read from one topic, write to another, exactly once: records and offsets are committed in one transaction.

Whatever happens in the middle, the new records and the offsets of the old ones count together or not at all. A program
that takes over begins where the last committed transaction ended, and readers with `isolation.level=read_committed`
see nothing of what was aborted. Use it for every step from topic to topic in which a duplicate would be a fault.

The id of the transactions belongs to the instance and outlives it: when the program starts again under the same id,
what its predecessor left open is aborted, and a predecessor that only seemed dead is fenced. Each instance of the group
needs an id of its own.
"""

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer

from arguments import options
from running import Running


def process(message: Message) -> str:
    return message.value().decode().upper()


def main() -> None:
    wanted = options(
        __doc__, topic="words", output="WORDS", group="consume-process-produce", transactional_id="upper-1", batch=100
    )
    consumer = Consumer(
        {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",  # what others have aborted is no input
            **wanted.property,
        }
    )
    producer = Producer({"bootstrap.servers": wanted.bootstrap, "transactional.id": wanted.transactional_id})
    producer.init_transactions()
    consumer.subscribe([wanted.topic])
    running = Running()
    try:
        while running:
            batch = consumer.consume(wanted.batch, timeout=0.2)
            if not batch:
                continue
            producer.begin_transaction()
            try:
                for message in batch:
                    if message.error():
                        raise KafkaException(message.error())
                    producer.produce(wanted.output, process(message), message.key())
                positions = consumer.position(consumer.assignment())
                producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
                producer.commit_transaction()
                print(f"committed {len(batch)} records", flush=True)
            except KafkaException as problem:
                error = problem.args[0]
                if not error.txn_requires_abort():
                    raise  # such as: fenced, another instance has our id now
                producer.abort_transaction()
                print(f"aborted: {error.name()}", flush=True)
                for one in consumer.committed(consumer.assignment()):  # read the batch again
                    one.offset = one.offset if one.offset >= 0 else OFFSET_BEGINNING
                    consumer.seek(one)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
