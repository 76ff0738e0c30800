"""A broker that dies, stops or freezes under load: what it acknowledged is there, and nothing else."""

import os
import signal

import pytest

from ottla.protocol.messages import CreateTopicsRequest, MetadataRequest
from support.load import PARTITIONS, TOPIC, Writer, await_more, check, finish
from support.proxy import proxy
from support.requests import batch, produce
from support.waiting import wait_until
from support.wire import Wire

KILLS = 6


@pytest.fixture
def way():
    with proxy() as made:
        yield made


@pytest.fixture
def broker(ottla_broker_factory, way):
    """A broker to which clients come through the proxy."""
    broker = ottla_broker_factory(
        overrides={
            "log.segment.bytes": "1048576",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{way.port}",
        }
    )
    way.broker_port = broker.port
    return broker


@pytest.fixture
def writers(broker, way):
    bootstrap = f"127.0.0.1:{way.port}"
    wire = Wire("127.0.0.1", broker.port)
    wire.create(TOPIC, PARTITIONS)
    wire.close()
    made = [
        Writer("once-a", bootstrap, idempotent=True),
        Writer("once-b", bootstrap, idempotent=True, partitions=[1]),
        Writer("plain", bootstrap, idempotent=False),
    ]
    yield made
    for writer in made:
        writer._stop.set()
        writer._thread.join()
        writer._producer.purge()


def begin_topics(broker, names):
    """Ask for topics, and do not wait for the answer."""
    wire = Wire("127.0.0.1", broker.port)
    for name in names:
        topic = CreateTopicsRequest.Topic(name=name, num_partitions=5, replication_factor=1)
        wire.send(CreateTopicsRequest(topics=[topic]), 7)
    return wire


def check_topics(broker, names):
    """Each is whole or absent; those that are there can be used."""
    wire = Wire("127.0.0.1", broker.port)
    known = {topic.name: topic for topic in wire.call(MetadataRequest(topics=None), 12).topics}
    for name in names:
        if name in known:
            assert len(known[name].partitions) == 5
            for partition in range(5):
                assert produce(wire, name, batch("x"), partition).base_offset >= 0
        else:
            assert not list(broker.data_dir.glob(f"{name}-*")), "something is left of a topic that was never made"
            wire.create(name, 5)
    wire.close()


def lose_replies(way, broker, writers):
    """From now on replies get lost; returns when an idempotent producer has a batch written and does not know."""
    way.loses_replies = True
    writer = next(writer for writer in writers if writer.partitions == [1])
    name = writer.name.encode() + b"-"

    def written():
        return sum(path.read_bytes().count(name) for path in broker.data_dir.glob(f"{TOPIC}-1/*.log"))

    wait_until(lambda: written() > len(writer.acknowledged))


def test_kill_minus_9_under_load_again_and_again(broker, way, writers):
    for kill in range(KILLS):
        await_more(writers, 300)
        names = [f"made-{kill}-{number}" for number in range(4)]
        asking = begin_topics(broker, names)
        if kill % 2:
            wait_until(lambda first=names[kill % 4]: list(broker.data_dir.glob(f"{first}-*")))
        lose_replies(way, broker, writers)
        broker.kill()
        asking.close()
        way.loses_replies = False
        broker.start()
        check_topics(broker, names)
        check(broker, writers)
    finish(broker, writers)


def test_sigterm_under_load_ends_with_status_0_and_loses_nothing(broker, way, writers):
    for _ in range(3):
        await_more(writers, 300)
        lose_replies(way, broker, writers)
        assert broker.stop() == 0
        assert "Traceback" not in broker.stderr
        way.loses_replies = False
        broker.start()
        check(broker, writers)
    finish(broker, writers)


def test_a_broker_that_freezes_goes_on_where_it_was(broker, writers):
    for _ in range(2):
        await_more(writers, 200)
        os.kill(broker.pid, signal.SIGSTOP)
        enough = sum(writer.sent for writer in writers) + 500
        wait_until(lambda enough=enough: sum(writer.sent for writer in writers) > enough)
        os.kill(broker.pid, signal.SIGCONT)
    finish(broker, writers)
