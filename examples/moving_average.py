"""State that outlives the program: a moving average, kept in a topic and committed together with the offsets.

The average of the last few values needs the values before. They are written to the results after every record, in the
transaction that commits its offset, so that the two always fit. A program that takes over reads the last result of its
partition and goes on with it, as if nothing had happened. The topic of results has as many partitions as the input, and
should be compacted: of each partition only the newest state counts.
"""

import json

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from arguments import options
from running import Running

WINDOW = 3


def process(values: list[float], message: Message) -> list[float]:
    """The new state."""
    return [*values, float(message.value())][-WINDOW:]


def last_state(bootstrap: str, topic: str, partition: int) -> list[float]:
    """What the last committed transaction has left of a partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "moving-average-state",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    state: list[float] = []
    while True:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if not message.error():
            state = json.loads(message.value())["values"]
        elif message.error().code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return state
        else:
            raise KafkaException(message.error())


def main() -> None:
    wanted = options(
        __doc__, topic="temperatures", results="averages", group="moving-average", transactional_id="moving-average-1"
    )
    producer = Producer({"bootstrap.servers": wanted.bootstrap, "transactional.id": wanted.transactional_id})
    producer.init_transactions()
    consumer = Consumer(
        {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **wanted.property,
        }
    )
    states: dict[int, list[float]] = {}  # by partition

    def on_assign(_: Consumer, partitions: list[TopicPartition]) -> None:
        states.clear()
        for one in partitions:
            states[one.partition] = last_state(wanted.bootstrap, wanted.results, one.partition)

    consumer.subscribe([wanted.topic], on_assign=on_assign)
    running = Running()
    try:
        while running:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            values = process(states[message.partition()], message)
            result = {"average": sum(values) / len(values), "values": values}
            producer.begin_transaction()
            producer.produce(wanted.results, json.dumps(result), key="state", partition=message.partition())
            position = TopicPartition(message.topic(), message.partition(), message.offset() + 1)
            producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata())
            producer.commit_transaction()  # an error ends the program; the next start reads record and state again
            states[message.partition()] = values
            print(f"offset {message.offset()}: {result['average']:g}", flush=True)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
