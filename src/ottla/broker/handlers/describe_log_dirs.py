"""DescribeLogDirs (35), versions 0-5.

The data directories (`log.dirs`) and the logs in them: all (topics null) or those named, by size in bytes. A partition
that is being moved to another directory (AlterReplicaLogDirs) stands in both; where it is going to it is marked
`is_future_key`, and lags behind by so many offsets. A directory that failed answers KAFKA_STORAGE_ERROR without logs;
a log that cannot be used is left out.

- v3: an error for the whole request. v4: size and free space of the file system (KIP-827), -1 where unknown.
- v5: `is_cordoned`, whether new partitions go elsewhere; ottla knows no such directories.
"""

from __future__ import annotations

import os
from collections.abc import Container
from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.storage.checkpoints import TopicPartition
from ottla.storage.directory import DataDirectory

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Response = messages.DescribeLogDirsResponse

UNKNOWN = (-1, -1)


@handles("DescribeLogDirs", 0, 5)
async def describe_log_dirs(
    broker: Broker, request: Request, body: messages.DescribeLogDirsRequest
) -> messages.DescribeLogDirsResponse:
    directories = broker.logs.directories
    spaces = await broker.run_blocking(_spaces, directories) if request.version >= 4 else [UNKNOWN] * len(directories)
    wanted = None
    if body.topics is not None:
        wanted = {(topic.topic, index) for topic in body.topics for index in topic.partitions}
    return Response(
        error_code=ErrorCode.NONE,
        results=[
            _directory(broker, directory, space, wanted) for directory, space in zip(directories, spaces, strict=True)
        ],
    )


def _spaces(directories: list[DataDirectory]) -> list[tuple[int, int]]:
    """Total and usable bytes of each."""
    found = []
    for directory in directories:
        try:
            space = os.statvfs(directory.path)
        except OSError:
            found.append(UNKNOWN)
        else:
            found.append((space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize))
    return found


def _directory(
    broker: Broker, directory: DataDirectory, space: tuple[int, int], wanted: Container[TopicPartition] | None
) -> messages.DescribeLogDirsResponse.LogDir:
    path = str(directory.path.absolute())
    if directory.failure is not None:
        return Response.LogDir(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=[])
    topics: dict[str, list[messages.DescribeLogDirsResponse.Partition]] = {}
    for key, log in broker.logs.in_directory(directory):
        if key in broker.logs.offline or (wanted is not None and key not in wanted):
            continue
        row = Response.Partition(partition_index=key[1], partition_size=log.size, offset_lag=0, is_future_key=False)
        topics.setdefault(key[0], []).append(row)
    for key, future in broker.logs.futures.items():
        if future.directory is directory and (wanted is None or key in wanted):
            lag = max(future.log.end_offset - future.end_offset, 0)
            row = Response.Partition(
                partition_index=key[1], partition_size=future.size, offset_lag=lag, is_future_key=True
            )
            topics.setdefault(key[0], []).append(row)
    total, usable = space
    return Response.LogDir(
        error_code=ErrorCode.NONE,
        log_dir=path,
        topics=[Response.Topic(name=name, partitions=rows) for name, rows in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
    )
