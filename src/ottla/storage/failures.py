"""What a failure of the disk means: whom it takes offline.

no space left, quota used up                      nobody: the request fails, and works again when there is space
damage of what was on disk, a file that is gone   the partition
an fsync that failed, whatever the reason         the partition: the system may have dropped what was to be written
I/O error, read-only, unreachable                 the data directory, with all its partitions
anything else (too many open files, no memory)    nobody: it may pass
"""

from __future__ import annotations

import errno
from enum import Enum

from ottla.storage.errors import CorruptLog, FlushFailed


class Reach(Enum):
    """What is lost with a failure."""

    REQUEST = "request"
    PARTITION = "partition"
    DIRECTORY = "directory"


FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
OF_DIRECTORY = frozenset(
    {
        errno.EIO,
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.ENODEV,
        errno.ENXIO,
        errno.ENOTCONN,
        errno.ESHUTDOWN,
        errno.ESTALE,
        errno.EUCLEAN,
        errno.EREMOTEIO,
    }
)


def reach_of(error: BaseException) -> Reach:
    if isinstance(error, CorruptLog):
        return Reach.PARTITION
    if isinstance(error, FlushFailed):
        return Reach.DIRECTORY if getattr(error.__cause__, "errno", None) in OF_DIRECTORY else Reach.PARTITION
    cause = error if isinstance(error, OSError) else error.__cause__
    if not isinstance(cause, OSError):
        return Reach.REQUEST
    if cause.errno in OF_DIRECTORY:
        return Reach.DIRECTORY
    return Reach.PARTITION if cause.errno == errno.ENOENT else Reach.REQUEST
