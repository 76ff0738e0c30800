"""Produce and Fetch requests in few words, and what their replies hold."""

from __future__ import annotations

from collections.abc import Iterable
from time import time
from typing import Any

from ottla.protocol import apis, codec
from ottla.protocol.messages import FetchRequest, ProduceRequest
from ottla.protocol.records import Record, build_batch, iter_batches, iter_records

Topic = str | bytes  # a name, or an id of 16 bytes


def now_ms() -> int:
    return int(time() * 1000)


def frame_of(message: Any, version: int, client_id: str | None) -> bytes:
    """A request as it comes: header and body."""
    key = apis.API_KEYS[type(message).__name__.removesuffix("Request")]
    return bytes(apis.encode_request_header(key, version, 7, client_id) + codec.encode(message, version))


def batch(*values: str | bytes | None, timestamp: int | None = None, key: bytes | None = b"k", **options: Any) -> bytes:
    """One batch with a record for each value."""
    at = now_ms() if timestamp is None else timestamp
    return bytes(
        build_batch(
            [
                Record(index, at, key, value.encode() if isinstance(value, str) else value)
                for index, value in enumerate(values)
            ],
            **options,
        )
    )


def produce_request(*parts: tuple[Topic, int, bytes | None], acks: int = 1) -> ProduceRequest:
    """`parts` are (topic, partition, records); those of one topic that stand together become one entry."""
    topics: list[Any] = []
    for topic, index, records in parts:
        named = {"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}
        if not topics or (topics[-1].topic_id if isinstance(topic, bytes) else topics[-1].name) != topic:
            topics.append(ProduceRequest.Topic(**named, partition_data=[]))
        topics[-1].partition_data.append(ProduceRequest.Partition(index=index, records=records))
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics)


def produce(
    wire: Any, topic: Topic, records: bytes | None, partition: int = 0, *, acks: int = 1, version: int = 9
) -> Any:
    """The answer for one batch."""
    (response,) = wire.call(produce_request((topic, partition, records), acks=acks), version).responses
    (answer,) = response.partition_responses
    return answer


def fetch_request(
    *parts: tuple[Topic, int, int],
    max_bytes: int = 1 << 30,
    partition_max_bytes: int = 1 << 20,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    leader_epoch: int = -1,
    last_epoch: int = -1,
    isolation: int = 0,
    session: tuple[int, int] = (0, -1),
    forget: Iterable[tuple[Topic, int]] = (),
) -> FetchRequest:
    """`parts` are (topic, partition, offset)."""
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchRequest.Topic(
                **({"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}),
                partitions=[
                    FetchRequest.Partition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        current_leader_epoch=leader_epoch,
                        last_fetched_epoch=last_epoch,
                    )
                ],
            )
            for topic, index, offset in parts
        ],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(
                **({"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}), partitions=[index]
            )
            for topic, index in forget
        ],
    )


def fetch(wire: Any, topic: Topic, offset: int, partition: int = 0, *, version: int = 12, **options: Any) -> Any:
    """The answer for one partition."""
    (response,) = wire.call(fetch_request((topic, partition, offset), **options), version).responses
    (answer,) = response.partitions
    return answer


def answers(reply: Any) -> dict[tuple[Topic, int], Any]:
    """A Fetch reply's partitions by topic (name or id) and index."""
    return {
        (topic.topic or bytes(topic.topic_id), one.partition_index): one
        for topic in reply.responses
        for one in topic.partitions
    }


def records_in(data: Any) -> list[Record]:
    """The records of whole batches."""
    data = bytes(data or b"")
    return [
        record
        for position, header in iter_batches(data)
        for record in iter_records(data[position : position + header.size], 1 << 30)
    ]


def values_in(data: Any) -> list[str]:
    return [(record.value or b"").decode() for record in records_in(data)]
