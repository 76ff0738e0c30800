"""DeleteRecords (21), versions 0-2.

Moves the start of partitions' logs, so that what lies before it is no more to be seen; segments wholly before it go at
the next retention check. Each partition is answered on its own, with its new low watermark:

    no such topic or partition                              UNKNOWN_TOPIC_OR_PARTITION
    an internal topic                                       INVALID_TOPIC_EXCEPTION
    a topic without `delete` in `cleanup.policy`            POLICY_VIOLATION
    an offset above the high watermark, or below -1         OFFSET_OUT_OF_RANGE
    a disk that failed, or refuses to take the new start    KAFKA_STORAGE_ERROR

-1 stands for the high watermark. An offset before the log's start changes nothing. The reply goes out when the new
starts are written down: a crash does not bring the records back.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.broker.led import led_partition
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.replication.refused import Refused

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

NO_OFFSET = -1

Answer = messages.DeleteRecordsResponse.Partition


@handles("DeleteRecords", 0, 2)
async def delete_records(
    broker: Broker, request: Request, body: messages.DeleteRecordsRequest
) -> messages.DeleteRecordsResponse:
    topics = [
        messages.DeleteRecordsResponse.Topic(
            name=topic.name, partitions=[_delete(broker, topic.name, asked) for asked in topic.partitions]
        )
        for topic in body.topics
    ]
    deleted = [answer for topic in topics for answer in topic.partitions if answer.error_code == ErrorCode.NONE]
    if deleted:
        try:
            await broker.run_blocking(broker.logs.write_log_starts)
        except OSError as error:
            log.error("the new starts of logs cannot be written down: %s", error)
            for answer in deleted:
                answer.error_code, answer.low_watermark = ErrorCode.KAFKA_STORAGE_ERROR, NO_OFFSET
    return messages.DeleteRecordsResponse(topics=topics)


def _delete(broker: Broker, topic: str, asked: messages.DeleteRecordsRequest.Partition) -> Answer:
    found = led_partition(broker, topic, asked.partition_index)
    if isinstance(found, ErrorCode):
        return Answer(partition_index=asked.partition_index, low_watermark=NO_OFFSET, error_code=found)
    try:
        low_watermark = found.delete_records(asked.offset)
    except Refused as refusal:
        log.info("%s-%d: records not deleted: %s", topic, asked.partition_index, refusal.message)
        return Answer(partition_index=asked.partition_index, low_watermark=NO_OFFSET, error_code=refusal.code)
    except OSError as error:
        found.log.failed(error)
        storage = ErrorCode.KAFKA_STORAGE_ERROR
        return Answer(partition_index=asked.partition_index, low_watermark=NO_OFFSET, error_code=storage)
    return Answer(partition_index=asked.partition_index, low_watermark=low_watermark, error_code=ErrorCode.NONE)
