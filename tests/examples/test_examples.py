"""Each example, run as a reader would, leaves the right output and the right records."""

import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.serialization import SerializationError

from ottla.testing import BrokerProcess
from support.programs import EXAMPLES

Stored = dict[int, list[tuple[bytes | None, bytes | None]]]  # key and value of each record, by partition


def run(example: str, bootstrap: str) -> list[str]:
    """The lines that an example prints."""
    words = [sys.executable, str(EXAMPLES / f"{example}.py"), "--bootstrap", bootstrap]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def stored(bootstrap: str, topic: str) -> Stored:
    """All that a topic holds."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "test", "enable.partition.eof": True}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    found: Stored = {index: [] for index in consumer.list_topics(topic, timeout=30).topics[topic].partitions}
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in found])
    unfinished = set(found)
    while unfinished:
        message = consumer.poll(30)
        assert message is not None, f"partitions {unfinished} do not end"
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            unfinished.discard(message.partition())
        else:
            found[message.partition()].append((message.key(), message.value()))
    consumer.close()
    return found


def test_the_quickstart_reads_the_two_lines_that_it_wrote(ottla_broker: BrokerProcess) -> None:
    assert run("quickstart", ottla_broker.bootstrap) == [
        "Created topic test.",
        "Test Message 1",
        "Test Message 2",
        "Processed a total of 2 messages",
    ]
    assert stored(ottla_broker.bootstrap, "test") == {0: [(None, b"Test Message 1"), (None, b"Test Message 2")]}


def test_the_quickstart_can_be_run_again(ottla_broker: BrokerProcess) -> None:
    run("quickstart", ottla_broker.bootstrap)
    again = run("quickstart", ottla_broker.bootstrap)
    assert (again[0], again[-1]) == ("Topic test is there already.", "Processed a total of 4 messages")


def test_the_minimal_producer_sends_text(ottla_broker: BrokerProcess) -> None:
    assert run("minimal_producer", ottla_broker.bootstrap) == ["0 records left to send"]
    assert stored(ottla_broker.bootstrap, "greetings") == {0: [(b"first", b"Hello from a minimal producer")]}


def test_what_is_fired_and_forgotten_arrives(ottla_broker: BrokerProcess) -> None:
    assert run("fire_and_forget", ottla_broker.bootstrap) == ["sent"]
    assert stored(ottla_broker.bootstrap, "CustomerCountry") == {0: [(b"Precision Products", b"France")]}


def test_a_synchronous_send_knows_its_offset(ottla_broker: BrokerProcess) -> None:
    for offset in range(2):
        expected = f"stored in CustomerCountry, partition 0, offset {offset}"
        assert run("synchronous_send", ottla_broker.bootstrap) == [expected]
    assert stored(ottla_broker.bootstrap, "CustomerCountry") == {0: [(b"Precision Products", b"France")] * 2}


def test_a_callback_is_told_after_the_program_has_gone_on(ottla_broker: BrokerProcess) -> None:
    assert run("callback_send", ottla_broker.bootstrap) == [
        "sent; the answer comes later",
        "stored 'Biomedical Materials' at offset 0",
    ]
    assert stored(ottla_broker.bootstrap, "CustomerCountry") == {0: [(b"Biomedical Materials", b"USA")]}


@pytest.mark.parametrize("example", ["synchronous_send", "callback_send"])
def test_a_record_that_the_broker_refuses_is_reported(
    example: str, ottla_broker_factory: Callable[..., BrokerProcess]
) -> None:
    broker = ottla_broker_factory(overrides={"message.max.bytes": "10"})
    last = run(example, broker.bootstrap)[-1]
    assert last.startswith("not stored:")
    assert "MSG_SIZE_TOO_LARGE" in last


# -- the serializer ------------------------------------------------------------------------------------------------


def test_customers_come_back_as_they_were_sent(ottla_broker: BrokerProcess) -> None:
    assert run("customer_serializer", ottla_broker.bootstrap) == [
        "Customer(id=1, name='Precision Products')",
        "Customer(id=2, name='Bäckerei Zürn')",
        "Customer(id=3, name='')",
    ]
    assert stored(ottla_broker.bootstrap, "customers") == {
        0: [
            (b"1", b"\0\0\0\1\0\0\0\x12Precision Products"),
            (b"2", b"\0\0\0\2\0\0\0\x0fB\xc3\xa4ckerei Z\xc3\xbcrn"),
            (b"3", b"\0\0\0\3\0\0\0\0"),
        ]
    }


@pytest.mark.parametrize("module", ["customer_serializer"], indirect=True)
def test_no_customer_is_a_null_record_both_ways(module: ModuleType) -> None:
    assert module.CustomerSerializer()(None) is None
    assert module.CustomerDeserializer()(None) is None


@pytest.mark.parametrize("module", ["customer_serializer"], indirect=True)
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "at least 8 bytes, these are 0"),
        (b"\0\0\0\1\0\0\0", "at least 8 bytes, these are 7"),
        (b"\0\0\0\1\0\0\0\5Anna", "a name of 5 bytes is announced, 4 follow"),
        (b"\0\0\0\1\xff\xff\xff\xffAnna", "a name of -1 bytes is announced"),
        (b"\0\0\0\1\0\0\0\1\xff", "not UTF-8"),
    ],
)
def test_bytes_that_are_no_customer_are_an_error(module: ModuleType, data: bytes, why: str) -> None:
    with pytest.raises(SerializationError, match=why):
        module.CustomerDeserializer()(data)


@pytest.mark.parametrize("module", ["customer_serializer"], indirect=True)
def test_a_customer_that_has_no_bytes_is_an_error(module: ModuleType) -> None:
    with pytest.raises(SerializationError, match="cannot serialize"):
        module.CustomerSerializer()(module.Customer(1 << 31, "too large an id"))


# -- the partitioner -----------------------------------------------------------------------------------------------


def test_banana_has_the_last_partition_to_itself(ottla_broker: BrokerProcess) -> None:
    lines = run("banana_partitioner", ottla_broker.bootstrap)
    said = dict(line.rsplit(" goes to partition ") for line in lines)
    found = stored(ottla_broker.bootstrap, "CustomerVisits")
    assert found.pop(3) == [(b"Banana", b"visit")] * 2
    assert {key.decode(): str(index) for index, records in found.items() for key, _ in records if key} | {
        "Banana": "3"
    } == said
    assert sum(map(len, found.values())) == 3


@pytest.mark.parametrize("module", ["banana_partitioner"], indirect=True)
@pytest.mark.parametrize("key", [None, b"Banana", 7])
def test_a_key_that_is_no_name_is_refused(module: ModuleType, key: object) -> None:
    with pytest.raises(module.InvalidKey, match="the customer's name"):
        module.BananaPartitioner(4)(key)


@pytest.mark.parametrize("module", ["banana_partitioner"], indirect=True)
def test_one_partition_takes_all_customers(module: ModuleType) -> None:
    assert {module.BananaPartitioner(1)(name) for name in ("Banana", "Precision Products")} == {0}


@pytest.mark.parametrize("module", ["banana_partitioner"], indirect=True)
@pytest.mark.parametrize(
    ("data", "hashed"),  # of Java's org.apache.kafka.common.utils.Utils.murmur2
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_javas_clients(module: ModuleType, data: bytes, hashed: int) -> None:
    assert module.murmur2(data) == hashed & 0xFFFFFFFF


@pytest.mark.parametrize("module", ["banana_partitioner"], indirect=True)
def test_other_customers_lie_where_librdkafkas_murmur2_puts_them(
    module: ModuleType, ottla_broker: BrokerProcess
) -> None:
    partitions = 7
    admin = AdminClient({"bootstrap.servers": ottla_broker.bootstrap})
    admin.create_topics([NewTopic("hashed", partitions, 1)])["hashed"].result(30)
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap, "partitioner": "murmur2_random"})
    names = [f"customer {'ä' * (number % 5)}{number}" for number in range(200)]
    for name in names:
        producer.produce("hashed", key=name, value=b"")
    assert producer.flush(30) == 0
    partition_of = module.BananaPartitioner(partitions + 1)
    expected: Stored = {index: [] for index in range(partitions)}
    for name in names:
        expected[partition_of(name)].append((name.encode(), b""))
    assert stored(ottla_broker.bootstrap, "hashed") == expected
    assert all(expected.values())
