"""A partitioner of one's own: the biggest customer gets a partition to itself.

"Banana" makes more traffic than all others, so it goes to the last partition. All other customers share the rest by the
hash of their name, the same hash as Java's clients use. confluent-kafka takes no partitioner written in Python; the
program computes the partition and says so in produce().
"""

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from arguments import bootstrap

TOPIC = "CustomerVisits"
PARTITIONS = 4


class InvalidKey(ValueError):
    """A record whose key is not the name of a customer."""


class BananaPartitioner:
    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    def __call__(self, key: object) -> int:
        if not isinstance(key, str):
            raise InvalidKey(f"every record needs the customer's name as its key, this one has {key!r}")
        last = self.partitions - 1
        if key == "Banana" or last == 0:
            return last
        return (murmur2(key.encode()) & 0x7FFFFFFF) % last  # cut to positive as Java's clients do; abs() is another


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits with Kafka's seed, unsigned."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    whole = len(data) & ~3
    h = 0x9747B28C ^ len(data)
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def create_topic(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 5})  # 5: no chatter
    try:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def main() -> None:
    servers = bootstrap(__doc__)
    create_topic(servers)
    producer = Producer({"bootstrap.servers": servers})
    partition_of = BananaPartitioner(len(producer.list_topics(TOPIC).topics[TOPIC].partitions))
    for customer in ("Banana", "Precision Products", "Biomedical Materials", "Banana", "Bäckerei Zürn"):
        partition = partition_of(customer)
        producer.produce(TOPIC, key=customer, value="visit", partition=partition)
        print(f"{customer} goes to partition {partition}")
    producer.flush(30)


if __name__ == "__main__":
    main()
