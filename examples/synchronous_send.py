"""Send a record and wait until the broker has it.

Simple and slow: one round trip per record, and nothing else happens meanwhile.
"""

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from arguments import bootstrap


def send(producer: Producer, topic: str, key: str, value: str) -> Message:
    """The record as the broker stored it; KafkaException when it could not be sent."""
    outcome: list[tuple[KafkaError | None, Message]] = []
    producer.produce(topic, key=key, value=value, on_delivery=lambda error, message: outcome.append((error, message)))
    while not outcome:
        producer.poll(1.0)
    error, message = outcome[0]
    if error:
        raise KafkaException(error)
    return message


def main() -> None:
    producer = Producer({"bootstrap.servers": bootstrap(__doc__)})
    try:
        stored = send(producer, "CustomerCountry", "Precision Products", "France")
        print(f"stored in {stored.topic()}, partition {stored.partition()}, offset {stored.offset()}")
    except KafkaException as problem:
        print(f"not stored: {problem}")


if __name__ == "__main__":
    main()
