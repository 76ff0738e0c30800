"""What a client writes, itself and all the others read: with every codec, whole, in order, from a time on."""

from __future__ import annotations

from collections.abc import Callable
from time import time

import pytest

from ottla.protocol import messages
from ottla.protocol.batch import iter_batches
from ottla.protocol.compression import NAMES, NONE
from ottla.protocol.records import Record
from support.clients.client import Client, Connected
from support.clients.every import CLIENTS
from support.clients.samples import AN_HOUR_AGO, as_seen, at_the_end, sample
from support.wire import Wire

FINDERS = [client for client in CLIENTS if client.finds_times]
MODERN = [client for client in CLIENTS if "zstd" in client.codecs]
OLD = [client for client in CLIENTS if "zstd" not in client.codecs]


def of(client: Client) -> str:
    return client.name


def codecs_in(wire: Wire, topic: str, partition: int = 0) -> set[str]:
    """The codecs of the batches as the broker has them."""
    asked = messages.FetchRequest.Topic(
        topic=topic, partitions=[messages.FetchRequest.Partition(partition=partition, partition_max_bytes=1 << 24)]
    )
    (answer,) = wire.call(messages.FetchRequest(topics=[asked], max_bytes=1 << 24), 12).responses[0].partitions
    assert answer.error_code == 0
    return {NAMES[header.codec] for _, header in iter_batches(answer.records, partial=True)}


def test_what_a_client_writes_it_reads(
    client: Client, codec: str, connected: Connected, topic: str, wire: Wire
) -> None:
    records = sample(client.name)
    connected.write(topic, records, codec=codec)
    read = connected.read(topic)
    assert as_seen(read, client, client) == at_the_end(records, client, client)
    assert [one.offset for one in read] == list(range(len(records)))
    assert codec in codecs_in(wire, topic)


def test_what_one_client_writes_all_the_others_read(
    wire: Wire, new_name: Callable[[], str], connections: Callable[[Client], Connected]
) -> None:
    topic = new_name()
    wire.create(topic, partitions=len(NAMES))  # one for each codec
    written: dict[str, list[tuple[Client, list[Record]]]] = {codec: [] for codec in NAMES}
    for writer in CLIENTS:
        for codec in writer.codecs:
            records = sample(f"{writer.name} {codec}")
            connections(writer).write(topic, records, partition=NAMES.index(codec), codec=codec)
            written[codec].append((writer, records))
    for reader in CLIENTS:
        for codec in reader.codecs:
            read = connections(reader).read(topic, partition=NAMES.index(codec))
            assert [one.offset for one in read] == list(range(sum(len(records) for _, records in written[codec])))
            position = 0
            for writer, records in written[codec]:
                part = read[position : position + len(records)]
                position += len(records)
                assert as_seen(part, writer, reader) == at_the_end(records, writer, reader), (writer.name, reader.name)


@pytest.mark.parametrize("client", FINDERS, ids=of)
@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_client_reads_from_the_first_record_that_is_not_older(
    client: Client, is_compressed: bool, connected: Connected, topic: str, wire: Wire
) -> None:
    codec = NAMES.index(client.codecs[-1]) if is_compressed else NONE
    times = [[0, 1000, 2000], [3000, 3500, 3500], [9000, 4000, 5000]]  # the last batch is not in order
    for batch in times:
        wire.produce(topic, [Record(at, AN_HOUR_AGO + time, None, b"x") for at, time in enumerate(batch)], codec=codec)
    for since, first in [(-1000, 0), (0, 0), (1, 1), (3200, 4), (3500, 4), (3501, 6), (9000, 6), (9001, 9)]:
        read = connected.read(topic, since=AN_HOUR_AGO + since)
        assert [one.offset for one in read] == list(range(first, 9)), since


def test_a_large_record_arrives_whole(client: Client, connected: Connected, wire: Wire, new_name: Callable) -> None:
    topic = new_name()
    wire.create(topic, configs={"max.message.bytes": "8000000"})
    value = bytes(range(256)).replace(b"<", b">") * 20_000  # over 5 MB
    small = Record(0, AN_HOUR_AGO, b"before", b"small")
    connected.write(topic, [small, Record(1, AN_HOUR_AGO, b"key", value), small._replace(key=b"after")])
    read = connected.read(topic)
    assert [one.key for one in read] == [b"before", b"key", b"after"]
    assert read[1].value == value


@pytest.mark.parametrize("client", [client for client in CLIENTS if client.name != "kcat"], ids=of)
def test_null_and_empty_are_two_things(client: Client, connected: Connected, topic: str) -> None:
    connected.write(
        topic, [Record(0, AN_HOUR_AGO, b"", b""), Record(1, AN_HOUR_AGO, None, b""), Record(2, AN_HOUR_AGO, b"", None)]
    )
    assert [(one.key, one.value) for one in connected.read(topic)] == [(b"", b""), (None, b""), (b"", None)]


@pytest.mark.parametrize("client", [one for one in CLIENTS if one.sees_timestamps and not one.sets_timestamps], ids=of)
def test_a_client_that_sets_no_time_gets_its_own_clock(client: Client, connected: Connected, topic: str) -> None:
    before = int(time() * 1000)
    connected.write(topic, sample("x", 1))
    assert before <= connected.read(topic)[0].timestamp <= int(time() * 1000)


@pytest.mark.parametrize("client", OLD, ids=of)
def test_records_of_old_clients_have_no_time_unless_the_client_sends_one(
    client: Client, connected: Connected, topic: str, connections: Callable[[Client], Connected]
) -> None:
    connected.write(topic, [Record(0, AN_HOUR_AGO, None, b"x")])
    for reader in MODERN[:3]:
        assert connections(reader).read(topic)[0].timestamp == (AN_HOUR_AGO if client.sets_timestamps else -1), (
            reader.name
        )


@pytest.mark.parametrize("client", [one for one in CLIENTS if one.sees_timestamps], ids=of)
def test_with_log_append_time_the_clock_is_the_brokers(
    client: Client, connected: Connected, wire: Wire, new_name: Callable[[], str]
) -> None:
    topic = new_name()
    wire.create(topic, configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time() * 1000)
    connected.write(topic, sample("x", timestamp=AN_HOUR_AGO), codec="gzip")
    after = int(time() * 1000)
    assert all(before <= one.timestamp <= after for one in connected.read(topic))
