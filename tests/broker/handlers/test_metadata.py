"""Metadata through the wire, in every version."""

from __future__ import annotations

import socket

import pytest

from ottla.controller.image import BrokerInfo, PartitionImage
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

ALL = range(14)
ZERO = bytes(16)


def ask(wire, version, names=None, ids=(), create=False, **more):
    topics = None
    if names is not None or ids:
        topics = [messages.MetadataRequest.Topic(name=name) for name in names or ()]
        topics += [messages.MetadataRequest.Topic(topic_id=id, name=None) for id in ids]
    elif version == 0:
        topics = []
    if version >= 4:
        more["allow_auto_topic_creation"] = create
    return wire.call(messages.MetadataRequest(topics=topics, **more), version)


@pytest.mark.parametrize("version", ALL)
def test_every_version_tells_brokers_and_topics(served, wire, version):
    id = wire.create("t", 2)
    reply = ask(wire, version, ["t"])
    (node,) = reply.brokers
    assert (node.node_id, node.host, node.port, node.rack) == (0, "127.0.0.1", served.port(), None)
    (topic,) = reply.topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "t", False)
    assert [(p.error_code, p.partition_index, p.leader_id) for p in topic.partitions] == [(0, 0, 0), (0, 1, 0)]
    assert [(p.replica_nodes, p.isr_nodes, p.offline_replicas) for p in topic.partitions] == [([0], [0], [])] * 2
    if version >= 1:
        assert reply.controller_id == 0
    if version >= 2:
        assert reply.cluster_id == served.broker.image.cluster_id
    if version >= 7:
        assert topic.partitions[0].leader_epoch == 0
    if version >= 10:
        assert topic.topic_id == id


@pytest.mark.parametrize("version", ALL)
def test_null_topics_are_all_topics_and_in_version_0_so_is_an_empty_list(wire, version):
    wire.create("a")
    wire.create("b")
    assert sorted(topic.name for topic in ask(wire, version).topics) == ["a", "b"]


@pytest.mark.parametrize("version", ALL[1:])
def test_an_empty_list_is_no_topics(wire, version):
    wire.create("a")
    assert ask(wire, version, []).topics == []


def test_a_topic_asked_for_twice_is_told_once(wire):
    wire.create("a")
    assert [topic.name for topic in ask(wire, 9, ["a", "a"]).topics] == ["a"]


@pytest.mark.parametrize("version", [0, 3, 4, 12, 13])
def test_an_unknown_topic_is_created_behind_a_reply_that_says_leader_not_available(serve, until, version):
    wire = serve(num_partitions=3).wire()
    (first,) = ask(wire, version, ["new"], create=True).topics
    assert (first.error_code, first.name, first.partitions) == (ErrorCode.LEADER_NOT_AVAILABLE, "new", [])

    def there():
        (topic,) = ask(wire, version, ["new"], create=True).topics
        assert topic.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)
        return topic.error_code == ErrorCode.NONE and topic

    assert len(until(there).partitions) == 3


def test_a_client_that_says_no_creates_nothing(wire):
    (topic,) = ask(wire, 4, ["new"], create=False).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(wire, 4).topics == []


def test_a_broker_that_says_no_creates_nothing(serve):
    wire = serve(auto_create_topics_enable=False).wire()
    for version in (0, 4):
        (topic,) = ask(wire, version, ["new"], create=True).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(wire, 4).topics == []


@pytest.mark.parametrize("create", [True, False])
def test_an_illegal_name_is_told_so_and_not_created(wire, create):
    (topic,) = ask(wire, 9, ["a b"], create=create).topics
    assert (topic.error_code, topic.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "a b")
    assert ask(wire, 9).topics == []


def test_a_topic_that_cannot_be_replicated_is_told_so(serve):
    wire = serve(default_replication_factor=2).wire()
    (topic,) = ask(wire, 9, ["new"], create=True).topics
    assert topic.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_internal_topics_are_flagged_and_not_created_by_asking(wire):
    (topic,) = ask(wire, 9, ["__consumer_offsets"], create=True).topics
    assert (topic.error_code, topic.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
    wire.create("__consumer_offsets")
    (topic,) = ask(wire, 9, ["__consumer_offsets"]).topics
    assert (topic.error_code, topic.is_internal) == (0, True)


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_found_by_id(wire, version):
    id = wire.create("t")
    known, unknown = ask(wire, version, ids=[id, b"u" * 16]).topics
    assert (known.error_code, known.name, known.topic_id) == (0, "t", id)
    assert (unknown.error_code, unknown.name, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, b"u" * 16)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_before_version_12(wire, version):
    id = wire.create("t")
    (topic,) = ask(wire, version, ids=[id]).topics
    assert (topic.error_code, topic.topic_id) == (ErrorCode.INVALID_REQUEST, id)


@pytest.mark.parametrize("version", [12, 13])
def test_an_entry_with_neither_name_nor_id_is_refused(wire, version):
    (topic,) = ask(wire, version, ids=[ZERO]).topics
    assert topic.error_code == ErrorCode.INVALID_REQUEST


def test_operations_are_told_only_to_who_asks(wire):
    wire.create("t")
    quiet = ask(wire, 8, ["t"])
    assert quiet.cluster_authorized_operations == quiet.topics[0].topic_authorized_operations == -(2**31)
    asked = ask(wire, 8, ["t"], include_cluster_authorized_operations=True, include_topic_authorized_operations=True)
    assert (asked.cluster_authorized_operations, asked.topics[0].topic_authorized_operations) == (8096, 3576)
    assert ask(wire, 13, ["t"], include_topic_authorized_operations=True).topics[0].topic_authorized_operations == 3576


def test_a_rack_is_told_from_version_1_on(serve):
    wire = serve(broker_rack="r9").wire()
    assert ask(wire, 0).brokers[0].rack is None
    assert ask(wire, 1).brokers[0].rack == "r9"


# -- addresses


def test_the_advertised_address_of_the_listener_that_was_asked_is_told(serve):
    served = serve(
        listeners=["PLAINTEXT://127.0.0.1:0", "OTHER://127.0.0.1:0", "THIRD://127.0.0.1:0"],
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,THIRD:PLAINTEXT",
        advertised_listeners=["PLAINTEXT://one.example:19092", "OTHER://two.example:29092"],
    )
    told = [(n.host, n.port) for at in range(3) for n in ask(served.wire(listener=at), 9).brokers]
    assert told == [("one.example", 19092), ("two.example", 29092), ("127.0.0.1", served.port(2))]


@pytest.mark.parametrize(("bound", "reached"), [("0.0.0.0", "127.0.0.1"), ("", "127.0.0.1"), ("", "::1")])
def test_bound_to_every_interface_the_address_that_the_client_reached_is_told(serve, bound, reached):
    if ":" in reached and not _has_ipv6():
        pytest.skip("no IPv6 here")
    served = serve(listeners=[f"PLAINTEXT://{bound}:0"])
    (node,) = ask(served.wire(host=reached), 9).brokers
    assert (node.host, node.port) == (reached, served.port())


def _has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


# -- other brokers, as a cluster will have them


@pytest.fixture
def lamed(served, wire):
    """A topic led by a live broker without our listener, and one led by a dead broker."""
    for name in ("elsewhere", "dead"):
        wire.create(name)

    async def change():
        image = served.broker.image
        image.brokers[5] = BrokerInfo(5, None, {"INTERNAL": ("five", 1)})
        image.topics["elsewhere"].partitions[0] = PartitionImage(5, 3, [5, 0], [5, 0])
        image.topics["dead"].partitions[0] = PartitionImage(6, 4, [6, 0], [0])

    served.run(change())
    return wire


def test_a_broker_without_the_listener_is_not_told(lamed):
    assert [node.node_id for node in ask(lamed, 9).brokers] == [0]


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, "LEADER_NOT_AVAILABLE"), (5, "LEADER_NOT_AVAILABLE"), (6, "LISTENER_NOT_FOUND"), (13, "LISTENER_NOT_FOUND")],
)
def test_a_leader_without_the_listener_has_an_error_of_its_own_from_version_6_on(lamed, version, code):
    (partition,) = ask(lamed, version, ["elsewhere"]).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode[code], -1)
    assert partition.replica_nodes == [5, 0]


@pytest.mark.parametrize("version", [1, 5, 6, 13])
def test_a_dead_leader_is_leader_not_available_and_its_replica_offline(lamed, version):
    (partition,) = ask(lamed, version, ["dead"]).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (partition.replica_nodes, partition.isr_nodes) == ([6, 0], [0])
    assert partition.offline_replicas == ([6] if version >= 5 else [])
    assert partition.leader_epoch == (4 if version >= 7 else -1)


def test_version_0_leaves_dead_replicas_out(lamed):
    (partition,) = ask(lamed, 0, ["dead"]).topics[0].partitions
    assert (partition.error_code, partition.replica_nodes) == (ErrorCode.LEADER_NOT_AVAILABLE, [0])
