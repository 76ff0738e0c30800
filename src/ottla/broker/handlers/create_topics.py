"""CreateTopics (19), versions 0-7.

Each topic of the request is made or refused on its own; the reply goes out when the logs of those that were made are
open. What is checked, and with which errors: controller/topics.py.

- v1: `validate_only`, and a message with each error. v4: -1 for the default numbers (KIP-464; taken in any version).
- v5: the reply tells partitions, replication factor and all configs with their sources (KIP-525). v7: the topic's id,
  zero where the request only validates.
- A request that takes longer than its timeout is answered REQUEST_TIMED_OUT for all; the work goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.deadlines import within
from ottla.broker.dispatch import Request, handles
from ottla.config.describe import describe_topic
from ottla.controller.names import ZERO_ID
from ottla.controller.topics import NewTopic, TopicResult
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@handles("CreateTopics", 0, 7)
async def create_topics(
    broker: Broker, request: Request, body: messages.CreateTopicsRequest
) -> messages.CreateTopicsResponse:
    asked = [_asked(topic) for topic in body.topics]
    work = broker.controller.create_topics(asked, validate_only=body.validate_only)
    results = await within(body.timeout_ms, work)
    if results is None:
        late = ErrorCode.REQUEST_TIMED_OUT
        results = [TopicResult(name, late, late.message) for name in dict.fromkeys(new.name for new in asked)]
    return messages.CreateTopicsResponse(topics=[_topic(broker, result, request, body) for result in results])


def _asked(topic: messages.CreateTopicsRequest.Topic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
        {config.name: config.value for config in topic.configs},
    )


def _topic(
    broker: Broker, result: TopicResult, request: Request, body: messages.CreateTopicsRequest
) -> messages.CreateTopicsResponse.Topic:
    made = result.image
    if made is None:
        return messages.CreateTopicsResponse.Topic(
            name=result.name, error_code=result.error_code, error_message=result.message
        )
    rows = describe_topic(made.configs, broker.config) if request.version >= 5 else []
    return messages.CreateTopicsResponse.Topic(
        name=made.name,
        topic_id=ZERO_ID if body.validate_only else made.id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(made.partitions),
        replication_factor=len(made.partitions[0].replicas),
        configs=[
            messages.CreateTopicsResponse.Config(
                name=row.name,
                value=row.value,
                read_only=row.read_only,
                config_source=row.source,
                is_sensitive=row.sensitive,
            )
            for row in rows
        ],
    )
