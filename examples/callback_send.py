"""Send a record, go on, and be told later what became of it.

The callback runs inside poll() and flush(), in the thread that calls them; it should be quick.
"""

from confluent_kafka import KafkaError, Message, Producer

from arguments import bootstrap


class DemoProducerCallback:
    """Called once for each record, when it is stored or has failed for good."""

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error:
            print(f"not stored: {error}")
        else:
            print(f"stored {message.key().decode()!r} at offset {message.offset()}")


def main() -> None:
    producer = Producer({"bootstrap.servers": bootstrap(__doc__)})
    producer.produce("CustomerCountry", key="Biomedical Materials", value="USA", on_delivery=DemoProducerCallback())
    print("sent; the answer comes later")
    producer.flush(30)


if __name__ == "__main__":
    main()
