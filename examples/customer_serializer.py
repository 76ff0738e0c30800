"""A serializer and a deserializer of one's own, for records that are objects.

    customer = id int32 | length of the name int32 | name, UTF-8        (big-endian)

A customer without a name has length 0, and comes back with an empty name. None is the null record (a tombstone).
A format of one's own is a burden: adding one field breaks every reader. Prefer Avro, JSON Schema or Protobuf.
"""

import struct
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.serialization import Deserializer, SerializationContext, SerializationError, Serializer

from arguments import bootstrap

TOPIC = "customers"
HEAD = struct.Struct(">ii")  # id, length of the name


@dataclass
class Customer:
    id: int
    name: str | None


class CustomerSerializer(Serializer):
    def __call__(self, customer: Customer | None, ctx: SerializationContext | None = None) -> bytes | None:
        if customer is None:
            return None
        try:
            name = (customer.name or "").encode()
            return HEAD.pack(customer.id, len(name)) + name
        except (struct.error, UnicodeEncodeError) as problem:
            raise SerializationError(f"cannot serialize {customer}: {problem}") from problem


class CustomerDeserializer(Deserializer):
    def __call__(self, data: bytes | None, ctx: SerializationContext | None = None) -> Customer | None:
        if data is None:
            return None
        if len(data) < HEAD.size:
            raise SerializationError(f"a customer has at least {HEAD.size} bytes, these are {len(data)}")
        id, length = HEAD.unpack_from(data)
        name = data[HEAD.size : HEAD.size + max(length, 0)]
        if len(name) != length:
            raise SerializationError(f"a name of {length} bytes is announced, {len(data) - HEAD.size} follow")
        try:
            return Customer(id, name.decode())
        except UnicodeDecodeError as problem:
            raise SerializationError(f"the name of customer {id} is not UTF-8: {problem}") from problem


def produce(servers: str, customers: list[Customer]) -> None:
    producer, serialize = Producer({"bootstrap.servers": servers}), CustomerSerializer()
    for customer in customers:
        producer.produce(TOPIC, key=str(customer.id), value=serialize(customer))
    producer.flush(30)


def consume(servers: str, count: int) -> list[Customer | None]:
    """The first records of the topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "customers", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    deserialize = CustomerDeserializer()
    found: list[Customer | None] = []
    while len(found) < count:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        found.append(deserialize(message.value()))
    consumer.close()
    return found


def main() -> None:
    servers = bootstrap(__doc__)
    customers = [Customer(1, "Precision Products"), Customer(2, "Bäckerei Zürn"), Customer(3, None)]
    produce(servers, customers)
    for customer in consume(servers, len(customers)):
        print(customer)


if __name__ == "__main__":
    main()
