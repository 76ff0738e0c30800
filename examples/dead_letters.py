"""Put records that cannot be processed aside, and go on.

A record that fails every time (a poison record) would stop its partition for ever. It goes to another topic as it is,
with headers that say where it was and what was wrong, and the consumer goes on; people look at it later. Use it for
faults of the record, not for those of the world around: while a database is down, all records would end up there.

The letter is on the broker before the offset is committed. A crash in between brings the record and its letter twice.
"""

import json

from confluent_kafka import Consumer, KafkaException, Message, Producer

from arguments import options
from running import Running


def process(message: Message) -> None:
    """Takes orders such as {"item": "anvil", "count": 2}; raises what a bad one deserves."""
    order = json.loads(message.value())
    print(f"offset {message.offset()}: {int(order['count'])} of {order['item']}", flush=True)


def dead_letter(producer: Producer, topic: str, message: Message, why: Exception) -> None:
    headers = {
        "topic": message.topic(),
        "partition": str(message.partition()),
        "offset": str(message.offset()),
        "error": f"{type(why).__name__}: {why}",
    }
    producer.produce(topic, message.value(), message.key(), headers=[*(message.headers() or []), *headers.items()])
    if producer.flush(30):
        raise TimeoutError("the dead letter could not be sent")
    print(f"offset {message.offset()}: put aside, {type(why).__name__}: {why}", flush=True)


def main() -> None:
    wanted = options(__doc__, topic="orders", group="dead-letters", dead_letters="orders-dead")
    producer = Producer({"bootstrap.servers": wanted.bootstrap, "enable.idempotence": True})
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
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            try:
                process(message)
            except (ValueError, KeyError, TypeError) as problem:
                dead_letter(producer, wanted.dead_letters, message, problem)
            consumer.commit(message, asynchronous=True)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
