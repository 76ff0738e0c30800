"""OffsetCommit (8), versions 0-10.

A group's positions are stored, each with a text of the client's. The reply goes out when they are in the log.

- v0: no generation, as for a consumer that is no member. v1: generation and member; a time of commit (v1 only). v2-4:
  how long to keep the offsets. v6: leader epochs. v7: static members. v9: member epochs of KIP-848. v10: topic ids.

    a topic or partition that is not there                  UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID (v10)
    metadata over offset.metadata.max.bytes                 OFFSET_METADATA_TOO_LARGE
    a generation, and there is no such group                ILLEGAL_GENERATION, GROUP_ID_NOT_FOUND (v9+)
    another generation, not a member, an assignment is due  ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS
    another epoch than the member's (v9+)                   STALE_MEMBER_EPOCH; an older one may commit what the member
                                                            has had since (KIP-1251)
    without membership (generation -1)                      taken if the group has no members, else UNKNOWN_MEMBER_ID

Each partition has its own result; what concerns the group is told for all partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Deferred, Request, handles
from ottla.groups.effects import Effect, Reply
from ottla.groups.records import NO_EXPIRY, Committed
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.groups.group import Group

GROUP_NOT_FOUND, TOPIC_IDS = 9, 10  # versions that brought them
NOT_GIVEN = -1

Body = messages.OffsetCommitRequest
Response = messages.OffsetCommitResponse
Wanted = tuple[str, Body.Partition, Response.Partition]  # the topic's name, what is to be committed, its result


@handles("OffsetCommit", 0, 10)
def offset_commit(broker: Broker, request: Request, body: Body) -> Response | Deferred:
    answers = []
    wanted: list[Wanted] = []
    for topic in body.topics:
        name, count, missing = _resolve(broker, topic, request.version)
        partitions = []
        for one in topic.partitions:
            known = 0 <= one.partition_index < count
            answer = Response.Partition(partition_index=one.partition_index, error_code=0 if known else missing)
            partitions.append(answer)
            if known:
                wanted.append((name, one, answer))
        answers.append(Response.Topic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    response = Response(topics=answers)
    if not wanted:
        return response
    found = _find(broker, body, request.version)
    if isinstance(found, ErrorCode):
        return _refuse(response, wanted, found)
    effects = found.core.commit(
        body.member_id,
        body.group_instance_id,
        body.generation_id_or_member_epoch,
        broker.groups.now(),
        version=request.version,
        partitions=((name, one.partition_index) for name, one, _ in wanted),
    )
    if isinstance(effects, ErrorCode):
        return _refuse(response, wanted, effects)
    deferred = Deferred(request)
    _commit(broker, found, body, wanted, effects)
    effects.append(Reply(deferred, response))
    broker.groups.carry_out(found, effects)
    return deferred


def _refuse(response: Response, wanted: list[Wanted], code: ErrorCode) -> Response:
    for _, _, answer in wanted:
        answer.error_code = code
    return response


def _resolve(broker: Broker, topic: Body.Topic, version: int) -> tuple[str, int, ErrorCode]:
    """Name and number of partitions, and what to say of those that are not there."""
    image = broker.image
    found = image.topics_by_id.get(topic.topic_id) if version >= TOPIC_IDS else image.topics.get(topic.name)
    if found is None:
        unknown_id = version >= TOPIC_IDS
        return "", 0, ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return found.name, len(found.partitions), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _find(broker: Broker, body: Body, version: int) -> Group | ErrorCode:
    shard = broker.groups.shard_of(body.group_id)
    if isinstance(shard, ErrorCode):
        broker.groups.topic.begin()
        return shard
    if body.group_id not in shard.groups and body.generation_id_or_member_epoch >= 0:
        return ErrorCode.GROUP_ID_NOT_FOUND if version >= GROUP_NOT_FOUND else ErrorCode.ILLEGAL_GENERATION
    return shard.find_or_create(body.group_id)


def _commit(
    broker: Broker,
    group: Group,
    body: Body,
    wanted: list[Wanted],
    effects: list[Effect],
) -> None:
    now_ms, longest = broker.now_ms(), broker.config.offset_metadata_max_bytes
    expires_at = NO_EXPIRY if body.retention_time_ms == NOT_GIVEN else now_ms + body.retention_time_ms
    for topic, one, answer in wanted:
        metadata = one.committed_metadata or ""
        if len(metadata) > longest:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        committed_at = now_ms if one.commit_timestamp == NOT_GIVEN else one.commit_timestamp
        committed = Committed(one.committed_offset, one.committed_leader_epoch, metadata, committed_at, expires_at)
        effects.append(group.offsets.commit(topic, one.partition_index, committed))
