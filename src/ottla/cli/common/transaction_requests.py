"""What `ottla transactions` asks brokers: coordinators of transactions, and the partitions that producers write to.

A transaction hangs when it is open in a partition and no coordinator is going to end it (KIP-664): its transactional id
is not known any more, or what the id is at does not have the partition. Readers of committed records do not get beyond
its start, and compaction neither.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.cli.common.invocation import Failure
from ottla.cli.common.json_files import TopicPartition
from ottla.cli.common.requests import Cluster, error_text
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
)

OF_TRANSACTIONS = 1  # a kind of coordinator
PARTITIONS_PER_REQUEST = 500
TIMEOUT_MS = 60_000
PAUSE_SECONDS = 0.1

PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

Producer = DescribeProducersResponse.ActiveProducer
Description = DescribeTransactionsResponse.Transaction


class Listed(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class Open(NamedTuple):
    """A transaction that is open in a partition."""

    topic: str
    partition: int
    producer: Producer


def listed(
    cluster: Cluster, duration_ms: int = -1, pattern: str | None = None, producer_ids: Sequence[int] = ()
) -> list[Listed]:
    """What all coordinators know; filters that a broker is too old for are refused."""
    found = []
    needed = 2 if pattern else 1 if duration_ms >= 0 else 0
    for node_id, connection in cluster.brokers().items():
        version = connection.version_of("ListTransactions")
        if version < needed:
            raise Failure(f"broker {node_id} is too old to list transactions by {'pattern' if pattern else 'duration'}")
        reply = connection.call(
            ListTransactionsRequest(
                producer_id_filters=list(producer_ids),
                duration_filter=duration_ms,
                transactional_id_pattern=pattern,
            )
        )
        if reply.error_code:
            raise Failure(f"Failed to list transactions: {error_text(reply.error_code)}")
        found += [
            Listed(one.transactional_id, node_id, one.producer_id, one.transaction_state)
            for one in reply.transaction_states
        ]
    return found


def coordinator(cluster: Cluster, transactional_id: str) -> int:
    """The broker that coordinates an id."""
    request = FindCoordinatorRequest(
        key=transactional_id, key_type=OF_TRANSACTIONS, coordinator_keys=[transactional_id]
    )
    for _ in _tries():
        reply = cluster.seed.call(request)
        found = reply.coordinators[0] if reply.coordinators else reply  # one answer before version 4
        if found.error_code not in PASSING:
            break
    if found.error_code:
        raise Failure(f"no coordinator of {transactional_id!r}: {error_text(found.error_code, found.error_message)}")
    return int(found.node_id)


def described(cluster: Cluster, transactional_id: str) -> tuple[int, Description | int]:
    """The coordinator of an id and what it knows of it, or the error that it tells."""
    node_id = coordinator(cluster, transactional_id)
    reply = cluster.broker(node_id).call(DescribeTransactionsRequest(transactional_ids=[transactional_id]))
    (found,) = reply.transaction_states
    return node_id, found.error_code or found


def producers(
    cluster: Cluster, partitions: Sequence[TopicPartition], broker_id: int | None = None
) -> Iterator[tuple[TopicPartition, list[Producer] | str]]:
    """The producers that each partition remembers, or why not; asked of its leader, or of one broker."""
    by_broker: dict[int, list[TopicPartition]] = {}
    leaders = _leaders(cluster, partitions) if broker_id is None else dict.fromkeys(partitions, broker_id)
    for one, leader in leaders.items():
        if isinstance(leader, str):
            yield one, leader
        else:
            by_broker.setdefault(leader, []).append(one)
    for node_id, places in by_broker.items():
        for at in range(0, len(places), PARTITIONS_PER_REQUEST):
            yield from _producers_at(cluster, node_id, places[at : at + PARTITIONS_PER_REQUEST])


def _producers_at(
    cluster: Cluster, node_id: int, places: Collection[TopicPartition]
) -> Iterator[tuple[TopicPartition, list[Producer] | str]]:
    topics: dict[str, DescribeProducersRequest.Topic] = {}
    for name, index in places:
        topics.setdefault(name, DescribeProducersRequest.Topic(name=name, partition_indexes=[]))
        topics[name].partition_indexes.append(index)
    reply = cluster.broker(node_id).call(DescribeProducersRequest(topics=list(topics.values())))
    for topic in reply.topics:
        for one in topic.partitions:
            told = error_text(one.error_code, one.error_message) if one.error_code else one.active_producers
            yield (topic.name, one.partition_index), told


def _leaders(cluster: Cluster, places: Iterable[TopicPartition]) -> dict[TopicPartition, int | str]:
    """The broker that leads each partition, or why there is none."""
    found: dict[TopicPartition, int | str] = dict.fromkeys(places, error_text(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    for topic in cluster.topics(sorted({name for name, _ in found})):
        for one in topic.partitions or []:
            place = str(topic.name), one.partition_index
            if place in found:
                known = one.leader_id >= 0
                found[place] = one.leader_id if known else error_text(ErrorCode.LEADER_NOT_AVAILABLE)
    return found


def partitions_of(cluster: Cluster, topic: str | None, broker_id: int | None) -> list[TopicPartition]:
    """The partitions of a topic, or of all; only those with a replica on the broker, if one is given."""
    found = cluster.topics(None if topic is None else [topic])
    for one in found:
        if one.error_code:
            raise Failure(f"Failed to describe {len(found)} topics: {error_text(one.error_code)}")
    return sorted(
        (str(one.name), partition.partition_index)
        for one in found
        for partition in one.partitions
        if broker_id is None or broker_id in partition.replica_nodes
    )


def hanging(cluster: Cluster, candidates: Sequence[Open]) -> list[Open]:
    """Those of the open transactions that nobody is going to end."""
    if not candidates:
        return []
    ids = sorted({one.producer.producer_id for one in candidates})
    partitions: dict[int, set[TopicPartition]] = {}  # that a producer's transaction has
    for known in listed(cluster, producer_ids=ids):
        _, found = described(cluster, known.transactional_id)
        if isinstance(found, int):
            if found != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:  # ended since
                raise Failure(f"Failed to describe {known.transactional_id!r}: {error_text(found)}")
        elif found.producer_id == known.producer_id:
            partitions[known.producer_id] = {(one.topic, index) for one in found.topics for index in one.partitions}
    return [one for one in candidates if (one[0], one[1]) not in partitions.get(one.producer.producer_id, ())]


def abort(cluster: Cluster, place: TopicPartition, producer_id: int, epoch: int, coordinator_epoch: int) -> str | None:
    """Ends a producer's transaction in one partition with an abort marker; what is wrong, or None."""
    leader = _leaders(cluster, [place])[place]
    if isinstance(leader, str):
        return leader
    marker = WriteTxnMarkersRequest.Marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[WriteTxnMarkersRequest.Topic(name=place[0], partition_indexes=[place[1]])],
        coordinator_epoch=coordinator_epoch,
    )
    reply = cluster.broker(leader).call(WriteTxnMarkersRequest(markers=[marker]))
    code = reply.markers[0].topics[0].partitions[0].error_code
    return error_text(code) if code else None


def terminate(cluster: Cluster, transactional_id: str) -> str | None:
    """Aborts what an id has open, and fences its producer: as a new producer of the id does. What is wrong, or None."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)
    for _ in _tries():
        reply = cluster.broker(coordinator(cluster, transactional_id)).call(request)
        if reply.error_code not in PASSING:
            break
    return error_text(reply.error_code) if reply.error_code else None


def _tries() -> Iterator[None]:
    """As often as it takes, with pauses, until the time is up."""
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    while True:
        yield
        if time.monotonic() > deadline:
            return
        time.sleep(PAUSE_SECONDS)
