"""Create the topic `test`, write two lines to it, and read it from its beginning."""

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from arguments import bootstrap

TOPIC = "test"


def create_topic(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 5})  # 5: no chatter
    try:
        admin.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=1)])[TOPIC].result()
        print(f"Created topic {TOPIC}.")
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        print(f"Topic {TOPIC} is there already.")


def produce(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for line in ("Test Message 1", "Test Message 2"):
        producer.produce(TOPIC, line)
    producer.flush()


def consume(servers: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "quickstart",  # the client asks for one, though assign() makes no use of it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    count = 0
    while True:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            if message.error().code() == KafkaError._PARTITION_EOF:
                break
            raise KafkaException(message.error())
        print(message.value().decode())
        count += 1
    consumer.close()
    print(f"Processed a total of {count} messages")


def main() -> None:
    servers = bootstrap(__doc__)
    create_topic(servers)
    produce(servers)
    consume(servers)


if __name__ == "__main__":
    main()
