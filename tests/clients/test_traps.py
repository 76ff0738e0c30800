"""What real clients rely on without saying so. Where no client of ours shows it, raw frames do."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from time import monotonic

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType
from kafka import KafkaProducer

from ottla.protocol import apis, codec, messages
from ottla.protocol.batch import iter_batches
from ottla.protocol.compression import GZIP, ZSTD
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record, build_batch, iter_records
from ottla.testing import BrokerProcess
from support.clients.confluent import ConfluentClient
from support.clients.kcat import KcatClient
from support.clients.samples import AN_HOUR_AGO
from support.requests import produce
from support.wire import TIMEOUT, Wire

SERVED = ("Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions", "CreateTopics", "InitProducerId")


def one(value: bytes = b"x", key: bytes | None = None) -> list[Record]:
    return [Record(0, AN_HOUR_AGO, key, value)]


def fetch(wire: Wire, version: int, topic: str | None, offset: int = 0, **request: int) -> messages.FetchResponse:
    wanted = messages.FetchRequest.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [messages.FetchRequest.Topic(topic=topic, partitions=[wanted])] if topic else []
    return wire.call(messages.FetchRequest(topics=topics, max_bytes=1 << 20, **request), version)


def offered(wire: Wire) -> dict[int, tuple[int, int]]:
    answer = wire.call(messages.ApiVersionsRequest(), 2)
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


# -- 1: ApiVersions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [5, 6, 99])
def test_trap_1_an_unknown_version_of_api_versions_is_answered_in_version_0_with_the_range(
    wire: Wire, version: int
) -> None:
    body = struct.pack(">hhi", 18, version, 77) + b"\xff\xff" + b"\0whatever"
    wire.socket.sendall(struct.pack(">i", len(body)) + body)
    frame = wire.frame()
    assert frame[:4] == struct.pack(">i", 77)
    answer = codec.decode("ApiVersionsResponse", 0, memoryview(frame)[4:])
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]
    assert offered(wire)  # the connection goes on


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_trap_1_the_reply_to_api_versions_has_no_tags_in_its_header(wire: Wire, version: int) -> None:
    wire.send(messages.ApiVersionsRequest(client_software_name="x", client_software_version="1"), version)
    frame = memoryview(wire.frame())
    answer = codec.decode("ApiVersionsResponse", version, frame[4:])
    assert answer.error_code == 0
    assert {apis.API_KEYS[name] for name in SERVED} <= {api.api_key for api in answer.api_keys}


# -- 2, 3, 4: what the table of versions makes clients do ------------------------------------------------------------


def test_trap_2_the_old_requests_are_offered_from_version_0_on(wire: Wire) -> None:
    table = offered(wire)
    for name in ("Produce", "Fetch", "ListOffsets", "Metadata", "FindCoordinator"):
        assert table[apis.API_KEYS[name]][0] == 0, name


@pytest.mark.parametrize("client", [ConfluentClient(), KcatClient()], ids=lambda client: client.name)
def test_trap_2_librdkafka_compresses_what_it_was_told_to(
    client: ConfluentClient, topic: str, wire: Wire, broker: BrokerProcess
) -> None:
    connected = client.connect(broker.bootstrap)
    connected.write(topic, one(b"a" * 10_000), codec="lz4")
    connected.close()
    (stored,) = fetch(wire, 12, topic).responses[0].partitions
    assert len(stored.records) < 1000


def test_trap_3_kafka_python_takes_the_broker_for_a_new_one(broker: BrokerProcess, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    try:
        sent = producer.send(topic, b"x", headers=[("a", b"b")]).get(TIMEOUT)
        assert sent.offset == 0
        assert producer.config["api_version"] >= (4, 0)
    finally:
        producer.close()


def test_trap_4_transactional_ids_have_a_coordinator(wire: Wire) -> None:
    assert offered(wire)[apis.API_KEYS["FindCoordinator"]][1] >= 1
    answer = wire.call(messages.FindCoordinatorRequest(key="payments", key_type=1), 1)
    assert (answer.error_code, answer.node_id) == (0, 0)


@pytest.mark.parametrize(("version", "code"), [(3, 76), (6, 76), (7, 0), (9, 0)])
def test_trap_4_zstd_is_taken_from_produce_version_7_on(wire: Wire, topic: str, version: int, code: int) -> None:
    assert produce(wire, topic, build_batch(one(), codec=ZSTD), version=version).error_code == code


@pytest.mark.parametrize(("version", "code"), [(0, 76), (2, 76), (3, 76), (4, 76), (9, 76), (10, 0), (12, 0)])
def test_trap_4_zstd_is_given_from_fetch_version_10_on(wire: Wire, topic: str, version: int, code: int) -> None:
    wire.produce(topic, one(), codec=ZSTD)
    (answer,) = fetch(wire, version, topic).responses[0].partitions
    assert answer.error_code == code
    assert bool(answer.records) == (code == 0)


# -- 6, 7, 8: what is refused, and how -------------------------------------------------------------------------------


def test_trap_6_a_record_without_key_is_refused_by_a_compacted_topic_and_named(
    wire: Wire, new_name: Callable[[], str], broker: BrokerProcess
) -> None:
    topic = new_name()
    wire.create(topic, configs={"cleanup.policy": "compact"})
    records = [Record(number, AN_HOUR_AGO, None if number == 2 else b"key", b"x") for number in range(4)]
    answer = produce(wire, topic, build_batch(records))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [2]
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    producer.produce(topic, b"x", b"key", partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT) == 0
    assert KafkaError.INVALID_RECORD in [error.code() for error in errors if error]


@pytest.mark.parametrize("name", ["", ".", "..", "no spaces", "a/b", "ü", "x" * 250])
def test_trap_7_an_illegal_name_is_told_so_and_not_created(wire: Wire, name: str, broker: BrokerProcess) -> None:
    assert produce(wire, name, build_batch(one())).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    asked = messages.MetadataRequest(topics=[messages.MetadataRequest.Topic(name=name)])
    assert wire.call(asked, 9).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert name not in {topic.name for topic in wire.call(messages.MetadataRequest(topics=None), 9).topics}


def test_trap_8_good_topics_are_made_beside_bad_ones(broker: BrokerProcess, new_name: Callable[[], str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    good, taken = new_name(), new_name()
    admin.create_topics([NewTopic(taken, 1)])[taken].result(TIMEOUT)
    asked = [
        NewTopic(good, 2),
        NewTopic(taken, 1),
        NewTopic("no spaces", 1),
        NewTopic(new_name(), 1, replication_factor=3),
        NewTopic(new_name(), 1, config={"cleanup.policy": "sometimes"}),
    ]
    codes = []
    for future in admin.create_topics(asked).values():
        error = future.exception(TIMEOUT)
        codes.append(error.args[0].code() if error else 0)
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_CONFIG,
    ]
    assert len(admin.list_topics(good, timeout=TIMEOUT).topics[good].partitions) == 2


# -- 10, 11, 12 ------------------------------------------------------------------------------------------------------


def test_trap_10_a_topic_made_by_asking_is_there_after_a_reply_or_two(wire: Wire, new_name: Callable[[], str]) -> None:
    asked = messages.MetadataRequest(topics=[messages.MetadataRequest.Topic(name=new_name())])
    codes = [wire.call(asked, 9).topics[0].error_code]
    deadline = monotonic() + TIMEOUT
    while codes[-1] != 0:
        assert monotonic() < deadline
        codes.append(wire.call(asked, 9).topics[0].error_code)
    assert codes[0] == ErrorCode.LEADER_NOT_AVAILABLE
    assert set(codes) == {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE}


def test_trap_11_the_limit_of_a_message_is_that_of_the_batch_as_stored(
    wire: Wire, new_name: Callable[[], str], broker: BrokerProcess
) -> None:
    topic = new_name()
    wire.create(topic, configs={"max.message.bytes": "2000"})
    shrinks = [Record(number, AN_HOUR_AGO, None, b"a" * 1000) for number in range(50)]
    assert produce(wire, topic, build_batch(shrinks, codec=GZIP)).error_code == 0
    assert produce(wire, topic, build_batch(shrinks[:3])).error_code == ErrorCode.MESSAGE_TOO_LARGE
    noise = build_batch(one(Random(1).randbytes(2500)), codec=GZIP)
    assert produce(wire, topic, noise).error_code == ErrorCode.MESSAGE_TOO_LARGE
    exact = one(b"b" * (2000 - len(build_batch(one(b""))) - 2))
    assert len(build_batch(exact)) == 2000
    assert produce(wire, topic, build_batch(exact)).error_code == 0
    assert produce(wire, topic, build_batch(one(b"b" + exact[0].value))).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_trap_12_configs_asked_for_without_names_are_all_there_with_their_sources(
    broker: BrokerProcess, wire: Wire, new_name: Callable[[], str]
) -> None:
    topic = new_name()
    wire.create(topic, configs={"retention.ms": "1234"})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    asked = [ConfigResource(ResourceType.TOPIC, topic), ConfigResource(ResourceType.BROKER, "0")]
    of_topic, of_broker = [future.result(TIMEOUT) for future in admin.describe_configs(asked).values()]
    assert of_topic["retention.ms"].value == "1234"
    assert not of_topic["retention.ms"].is_default
    assert of_topic["cleanup.policy"].value == "delete"
    assert of_topic["cleanup.policy"].is_default
    assert len(of_topic) > 20
    assert "log.dirs" in of_broker
    assert len(of_broker) > 50
    described = messages.DescribeConfigsRequest(
        resources=[messages.DescribeConfigsRequest.Resource(resource_type=2, resource_name=topic)]
    )
    (result,) = wire.call(described, 4).results
    types = {config.name: config.config_type for config in result.configs}
    assert (types["retention.ms"], types["cleanup.policy"], types["max.message.bytes"]) == (5, 7, 3)  # long, list, int


# -- 13, 14: offsets -------------------------------------------------------------------------------------------------


def test_trap_13_a_time_gives_the_first_record_at_or_after_it_with_its_own_time(
    broker: BrokerProcess, wire: Wire, topic: str
) -> None:
    for base in (0, 1000, 2000):
        records = [Record(number, AN_HOUR_AGO + base + 100 * number, None, b"x") for number in range(5)]
        wire.produce(topic, records, codec=ZSTD)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    where = TopicPartition(topic, 0)
    for time, offset, timestamp in [
        (AN_HOUR_AGO + 1101, 7, AN_HOUR_AGO + 1200),
        (AN_HOUR_AGO + 1200, 7, AN_HOUR_AGO + 1200),
        (AN_HOUR_AGO + 2401, -1, -1),
    ]:
        found = admin.list_offsets({where: OffsetSpec.for_timestamp(time)})[where].result(TIMEOUT)
        assert (found.offset, found.timestamp) == (offset, timestamp)
    newest = admin.list_offsets({where: OffsetSpec.max_timestamp()})[where].result(TIMEOUT)
    assert (newest.offset, newest.timestamp) == (14, AN_HOUR_AGO + 2400)


def test_trap_14_a_fetch_from_inside_a_batch_gives_the_whole_batch_and_the_client_skips(
    broker: BrokerProcess, wire: Wire, topic: str
) -> None:
    wire.produce(topic, [Record(number, AN_HOUR_AGO, None, b"%d" % number) for number in range(10)], codec=GZIP)
    (answer,) = fetch(wire, 12, topic, offset=7).responses[0].partitions
    ((position, header),) = iter_batches(answer.records)
    assert (header.base_offset, header.last_offset) == (0, 9)
    assert len(list(iter_records(answer.records[position:], 1 << 20))) == 10
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 7)])
    assert consumer.poll(TIMEOUT).value() == b"7"
    consumer.close()


# -- 15, 16: addresses, tags, nulls ----------------------------------------------------------------------------------


def test_trap_15_without_an_advertised_address_it_is_the_one_that_the_client_reached(
    ottla_broker_factory: Callable[..., BrokerProcess],
) -> None:
    broker = ottla_broker_factory(overrides={"listeners": "PLAINTEXT://0.0.0.0:0"})
    for host in ("127.0.0.1", "127.0.0.2"):
        wire = Wire(host, broker.port)
        (node,) = wire.call(messages.MetadataRequest(topics=[]), 9).brokers
        wire.close()
        assert (node.host, node.port) == (host, broker.port)
        producer = Producer({"bootstrap.servers": f"{host}:{broker.port}"})
        producer.produce("orders", b"x")
        assert producer.flush(TIMEOUT) == 0


def test_trap_15_an_advertised_address_is_told_as_it_is_given(
    ottla_broker_factory: Callable[..., BrokerProcess],
) -> None:
    advertised = "PLAINTEXT://broker.example:19092"
    broker = ottla_broker_factory(overrides={"advertised.listeners": advertised})
    wire = Wire("127.0.0.1", broker.port)
    (node,) = wire.call(messages.MetadataRequest(topics=[]), 9).brokers
    wire.close()
    assert (node.host, node.port) == ("broker.example", 19092)


def test_trap_16_unknown_tagged_fields_are_skipped(wire: Wire, topic: str) -> None:
    tag = b"\x01\x63\x03abc"  # one tagged field, number 99, three bytes
    header = struct.pack(">hhi", apis.API_KEYS["Metadata"], 9, 5) + b"\x00\x04test" + tag
    name = bytes([len(topic) + 1]) + topic.encode()
    body = b"\x02" + name + tag + b"\x00\x00\x00" + tag  # one topic; no creation, no operations
    wire.socket.sendall(struct.pack(">i", len(header + body)) + header + body)
    frame = wire.frame()
    answer = codec.decode("MetadataResponse", 9, memoryview(frame)[5:])
    assert [(one.name, one.error_code) for one in answer.topics] == [(topic, 0)]


@pytest.mark.parametrize("version", [1, 4, 9, 12, 13])
def test_trap_16_null_topics_are_all_and_an_empty_list_is_none(wire: Wire, topic: str, version: int) -> None:
    assert topic in {one.name for one in wire.call(messages.MetadataRequest(topics=None), version).topics}
    assert wire.call(messages.MetadataRequest(topics=[]), version).topics == []


# -- 17: fetch sessions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [7, 11, 12])
def test_trap_17_a_wrong_session_has_its_error_and_a_full_fetch_begins_anew(
    wire: Wire, topic: str, version: int
) -> None:
    wire.produce(topic, one())
    first = fetch(wire, version, topic, session_epoch=0)
    assert (first.error_code, len(first.responses)) == (0, 1)
    assert first.session_id > 0
    same = fetch(wire, version, None, session_id=first.session_id, session_epoch=1)
    assert (same.error_code, same.session_id) == (0, first.session_id)
    skipped = fetch(wire, version, None, session_id=first.session_id, session_epoch=7)
    assert skipped.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    nowhere = fetch(wire, version, None, session_id=first.session_id ^ 1, session_epoch=2)
    assert nowhere.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    again = fetch(wire, version, topic, session_id=first.session_id, session_epoch=0)
    assert (again.error_code, len(again.responses)) == (0, 1)
    assert again.session_id not in (0, first.session_id)


def test_trap_17_a_session_tells_only_what_is_new(wire: Wire, topic: str) -> None:
    wire.produce(topic, one(b"first"))
    session = fetch(wire, 12, topic, session_epoch=0).session_id
    moved = fetch(wire, 12, topic, offset=1, session_id=session, session_epoch=1)
    assert moved.responses == []
    wire.produce(topic, one(b"second"))
    news = fetch(wire, 12, None, session_id=session, session_epoch=2, max_wait_ms=TIMEOUT * 1000, min_bytes=1)
    (answer,) = news.responses[0].partitions
    assert b"second" in bytes(answer.records)


def test_an_offset_beyond_the_end_is_told_to_the_consumer(broker: BrokerProcess, topic: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False}
        | {"auto.offset.reset": "error"}
    )
    consumer.assign([TopicPartition(topic, 0, 5)])
    error = consumer.poll(TIMEOUT).error()
    consumer.close()
    assert error.code() == KafkaError._AUTO_OFFSET_RESET
