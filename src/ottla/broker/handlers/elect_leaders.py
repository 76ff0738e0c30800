"""ElectLeaders (43), versions 0-2.

Asks for the preferred leaders (v0, and type 0), or for leaders of partitions that have none, even if that loses records
(type 1, KIP-460). What is decided, and with which errors: controller/elections.py. A partition whose disk failed has no
leader, and on one node nobody else to elect.

- Topics null: all partitions; those that need no election are left out of the answer.
- v1: the type, and an error for the whole request: INVALID_REQUEST for an unknown type. v2 is the first flexible one.
- A request that takes longer than its timeout is answered REQUEST_TIMED_OUT for all; the work goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ottla.broker.deadlines import within
from ottla.broker.dispatch import Request, handles
from ottla.controller.elections import ElectionKind, ElectionResult
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Response = messages.ElectLeadersResponse


@handles("ElectLeaders", 0, 2)
async def elect_leaders(
    broker: Broker, request: Request, body: messages.ElectLeadersRequest
) -> messages.ElectLeadersResponse:
    named = body.topic_partitions
    if named is None:
        topics = broker.image.topics.items()
        asked = [(name, index) for name, topic in topics for index in range(len(topic.partitions))]
    else:
        asked = [(topic.topic, index) for topic in named for index in topic.partitions]
    if body.election_type not in set(ElectionKind):
        fault = f"there is no election of type {body.election_type}"
        return _failed([] if named is None else asked, ErrorCode.INVALID_REQUEST, fault)
    kind = ElectionKind(body.election_type)
    results = await within(body.timeout_ms, broker.controller.elect_leaders(asked, kind, broker.has_usable_replica))
    if results is None:
        return _failed([] if named is None else asked, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message)
    if named is None:
        results = [one for one in results if one.error_code != ErrorCode.ELECTION_NOT_NEEDED]
    return _response(results, ErrorCode.NONE)


def _failed(asked: Sequence[tuple[str, int]], code: ErrorCode, why: str) -> messages.ElectLeadersResponse:
    return _response([ElectionResult(topic, index, code, why) for topic, index in asked], code)


def _response(results: list[ElectionResult], code: ErrorCode) -> messages.ElectLeadersResponse:
    return Response(
        error_code=code,
        replica_election_results=[
            Response.Topic(
                topic=topic,
                partition_result=[
                    Response.Partition(partition_id=one.partition, error_code=one.error_code, error_message=one.message)
                    for one in group
                ],
            )
            for topic, group in groupby(results, key=lambda one: one.topic)
        ],
    )
