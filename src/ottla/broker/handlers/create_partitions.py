"""CreatePartitions (37), versions 0-3.

More partitions for topics that exist. Each topic of the request gets them or is refused on its own; the reply goes out
when the new logs are open. What is checked, and with which errors: controller/growth.py.

- A partition stays where its keys are: records that are there do not move, so keyed topics change their mapping
  (A3 T14). Producers and consumers learn of new partitions with their next Metadata.
- v2 is the first flexible version; v3 may be throttled (KIP-599), which changes no field.
- A request that takes longer than its timeout is answered REQUEST_TIMED_OUT for all; the work goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.deadlines import within
from ottla.broker.dispatch import Request, handles
from ottla.controller.growth import NewPartitions
from ottla.controller.topics import TopicResult
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@handles("CreatePartitions", 0, 3)
async def create_partitions(
    broker: Broker, request: Request, body: messages.CreatePartitionsRequest
) -> messages.CreatePartitionsResponse:
    asked = [_asked(topic) for topic in body.topics]
    work = broker.controller.create_partitions(asked, validate_only=body.validate_only)
    results = await within(body.timeout_ms, work)
    if results is None:
        late = ErrorCode.REQUEST_TIMED_OUT
        results = [TopicResult(name, late, late.message) for name in dict.fromkeys(new.name for new in asked)]
    return messages.CreatePartitionsResponse(
        results=[
            messages.CreatePartitionsResponse.Result(
                name=result.name, error_code=result.error_code, error_message=result.message
            )
            for result in results
        ]
    )


def _asked(topic: messages.CreatePartitionsRequest.Topic) -> NewPartitions:
    assignments = topic.assignments
    return NewPartitions(
        topic.name, topic.count, None if assignments is None else [one.broker_ids for one in assignments]
    )
