"""The least that a producer needs: brokers to ask first, and serializers that make bytes of keys and values.

Give two brokers or more where there are several (`--bootstrap broker1:9092,broker2:9092`): the client finds all others
through any one of them, and the second helps when the first is down.
"""

from confluent_kafka import Producer
from confluent_kafka.serialization import StringSerializer

from arguments import bootstrap


def main() -> None:
    producer = Producer({"bootstrap.servers": bootstrap(__doc__)})
    key, value = StringSerializer(), StringSerializer()

    producer.produce("greetings", key=key("first"), value=value("Hello from a minimal producer"))
    left = producer.flush(30)  # produce() only queues the record
    print(f"{left} records left to send")


if __name__ == "__main__":
    main()
