"""Topics as clients come upon them: made by use, not there, or not what the client takes them for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record
from ottla.testing import BrokerProcess
from support.clients.client import Client, ClientError, Connected
from support.clients.every import CLIENTS
from support.clients.samples import as_seen, at_the_end, sample
from support.wire import Wire

PASSES_ERRORS_ON = ("confluent-kafka", "kcat", "kafkajs")


@pytest.fixture(scope="session")
def strict_broker() -> Iterator[BrokerProcess]:
    """A broker where topics are only made on purpose."""
    with BrokerProcess(overrides={"auto.create.topics.enable": "false"}) as broker:
        yield broker


@pytest.fixture
def impatient(client: Client, strict_broker: BrokerProcess) -> Iterator[Connected]:
    connected = client.connect(strict_broker.bootstrap, patience=1)
    yield connected
    connected.close()


def test_writing_makes_the_topic(client: Client, connected: Connected, new_name: Callable[[], str]) -> None:
    topic = new_name()
    records = sample(client.name, 3)
    connected.write(topic, records)
    assert as_seen(connected.read(topic), client, client) == at_the_end(records, client, client)


def test_a_topic_that_is_not_there_is_an_error(
    client: Client, impatient: Connected, new_name: Callable[[], str], strict_broker: BrokerProcess
) -> None:
    topic = new_name()
    with pytest.raises(ClientError):
        impatient.write(topic, sample(client.name, 1))
    with pytest.raises(ClientError):
        impatient.read(topic)
    assert not [path for path in strict_broker.data_dir.iterdir() if path.name.startswith(topic)]


@pytest.mark.parametrize("client", [one for one in CLIENTS if one.name != "kafkajs"], ids=lambda client: client.name)
def test_a_partition_that_is_not_there_is_an_error(
    client: Client, impatient: Connected, new_name: Callable[[], str], strict_broker: BrokerProcess
) -> None:
    topic = new_name()
    wire = Wire("127.0.0.1", strict_broker.port)
    wire.create(topic, partitions=2)
    wire.close()
    with pytest.raises(ClientError):
        impatient.write(topic, sample(client.name, 1), partition=2)
    impatient.write(topic, sample(client.name, 1), partition=1)
    assert len(impatient.read(topic, partition=1)) == 1


def test_an_illegal_topic_name_is_refused(client: Client, broker: BrokerProcess, wire: Wire) -> None:
    connected = client.connect(broker.bootstrap, patience=1)
    with pytest.raises(ClientError) as refused:
        connected.write("no spaces", sample(client.name, 1))
    if client.name in PASSES_ERRORS_ON:
        assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    connected.close()
    assert "no spaces" not in {topic.name for topic in wire.call(messages.MetadataRequest(topics=None), 12).topics}


@pytest.mark.parametrize("packing", ["none", "gzip"])
def test_a_record_that_is_too_large_is_refused_and_the_next_is_not(
    client: Client, packing: str, connected: Connected, topic: str, broker: BrokerProcess
) -> None:
    another = client.connect(broker.bootstrap)
    with pytest.raises(ClientError) as refused:
        another.write(topic, [Record(0, 0, None, Random(1).randbytes(1_500_000))], codec=packing)
    another.close()
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    connected.write(topic, sample(client.name, 2), codec=packing)
    assert len(connected.read(topic)) == 2
