"""Send a record and do not look back.

Nobody asks whether it arrived. The client retries by itself, so mostly it does; a record that fails for good is lost
without a word. What can still be seen are errors before sending, such as a full queue.
"""

from confluent_kafka import KafkaException, Producer

from arguments import bootstrap


def main() -> None:
    producer = Producer({"bootstrap.servers": bootstrap(__doc__)})
    try:
        producer.produce("CustomerCountry", key="Precision Products", value="France")
        print("sent")
    except (BufferError, KafkaException) as problem:
        print(f"not even queued: {problem}")
    producer.flush(30)  # a program that ends here would take the queue with it


if __name__ == "__main__":
    main()
