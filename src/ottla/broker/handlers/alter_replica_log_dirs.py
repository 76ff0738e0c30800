"""AlterReplicaLogDirs (34), versions 0-2.

Moves partitions between the data directories of this broker while they serve (KIP-113; broker/moves.py). The reply
goes out when the moves have been taken on, so that a start takes them up should the broker be killed; how far they
are, DescribeLogDirs tells. Each partition on its own:

    a directory that `log.dirs` does not have                        LOG_DIR_NOT_FOUND
    one that failed or is too full to begin, a partition whose disk
    failed, or any directory that failed: it may hold another copy   KAFKA_STORAGE_ERROR
    a name that leaves no room for the name of a copy                INVALID_TOPIC_EXCEPTION
    a partition that is not there                                    UNKNOWN_TOPIC_OR_PARTITION
    one that this broker is to have, and has not yet                 REPLICA_NOT_AVAILABLE

The wish for a partition that is not there is kept, in memory, for when it is made. A partition that is there already,
or on its way, goes on; another destination replaces the former one, and so does the directory where it is. Of a
partition that a request names twice the last destination counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.protocol import messages
from ottla.storage.checkpoints import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Response = messages.AlterReplicaLogDirsResponse


@handles("AlterReplicaLogDirs", 0, 2)
def alter_replica_log_dirs(
    broker: Broker, request: Request, body: messages.AlterReplicaLogDirsRequest
) -> messages.AlterReplicaLogDirsResponse:
    asked: dict[TopicPartition, str] = {}
    for directory in body.dirs:
        for topic in directory.topics:
            asked.update({(topic.name, index): directory.path for index in topic.partitions})
    topics: dict[str, list[messages.AlterReplicaLogDirsResponse.Partition]] = {}
    for (name, index), path in asked.items():
        code = broker.moves.request((name, index), path)
        topics.setdefault(name, []).append(Response.Partition(partition_index=index, error_code=code))
    return Response(results=[Response.Topic(topic_name=name, partitions=rows) for name, rows in topics.items()])
