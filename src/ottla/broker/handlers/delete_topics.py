"""DeleteTopics (20), versions 0-6.

Each topic of the request is deleted or refused on its own: UNKNOWN_TOPIC_OR_PARTITION for a name, UNKNOWN_TOPIC_ID for
an id that is not there, INVALID_REQUEST for a topic that is named more than once. The reply goes out when the logs are
gone.

- v0-5: names. v6: names or ids; an entry with both or neither is INVALID_REQUEST (KIP-516).
- `delete.topic.enable=false`: TOPIC_DELETION_DISABLED for all; before v3, which does not know it, INVALID_REQUEST.
- v5: a message with each error.
- A request that takes longer than its timeout is answered REQUEST_TIMED_OUT for all; the work goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.deadlines import within
from ottla.broker.dispatch import Request, handles
from ottla.controller.names import ZERO_ID
from ottla.controller.topics import DeletionResult
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@handles("DeleteTopics", 0, 6)
async def delete_topics(
    broker: Broker, request: Request, body: messages.DeleteTopicsRequest
) -> messages.DeleteTopicsResponse:
    asked: list[str | bytes] = list(body.topic_names)
    refused = []
    for topic in body.topics:
        if topic.name is None and topic.topic_id != ZERO_ID:
            asked.append(topic.topic_id)
        elif topic.name is not None and topic.topic_id == ZERO_ID:
            asked.append(topic.name)
        else:
            fault = "a topic is named by its name or by its id: one of the two"
            refused.append(DeletionResult(topic.name, topic.topic_id, ErrorCode.INVALID_REQUEST, fault))
    results = await within(body.timeout_ms, broker.controller.delete_topics(asked))
    if results is None:
        results = [_late(key) for key in dict.fromkeys(asked)]
    return messages.DeleteTopicsResponse(responses=[_topic(result, request.version) for result in refused + results])


def _late(key: str | bytes) -> DeletionResult:
    name, id = (key, None) if isinstance(key, str) else (None, key)
    return DeletionResult(name, id, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message)


def _topic(result: DeletionResult, version: int) -> messages.DeleteTopicsResponse.Topic:
    code = result.error_code
    if code == ErrorCode.TOPIC_DELETION_DISABLED and version < 3:
        code = ErrorCode.INVALID_REQUEST
    return messages.DeleteTopicsResponse.Topic(
        name=result.name, topic_id=result.id or ZERO_ID, error_code=code, error_message=result.message
    )
