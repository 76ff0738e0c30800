"""Which segments of a log may go: the rules of Kafka, decided from numbers alone.

Segments go from the oldest on, whole ones only, and the first that stays ends it. One goes when, in this order,

    log start   it lies wholly below the log start offset (DeleteRecords), and another one follows it
    size        without it the log still has at least `retention.bytes`
    time        its newest record is older than `retention.ms`; without timestamps its file's last change counts

Size and time count only where `cleanup.policy` has `delete`; -1 means no limit. Nothing that reaches the high watermark
goes, so the start of a log never passes it. The active segment goes too when it is not empty and time or size say so;
the log is rolled first. (A1 S-20, A2 INT-054 say never: that was so before Kafka 0.10.1.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Protocol

from ottla.config.topic import TopicConfig


class Breach(Enum):
    """Why a segment goes."""

    LOG_START = "it lies below the log start offset"
    SIZE = "the log is larger than retention.bytes"
    TIME = "it is older than retention.ms"


class Held(Protocol):
    """A segment, as far as retention looks at it."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size(self) -> int: ...

    def newest_ms(self) -> int:
        """When its newest record was made. Asked only where nothing else decides, since it may cost a look at disk."""


def breaches(
    segments: Sequence[Held],
    *,
    start_offset: int,
    end_offset: int,
    high_watermark: int,
    config: TopicConfig,
    now_ms: int,
) -> Iterator[Breach]:
    """One reason for each segment that may go, from the oldest on."""
    deletes = "delete" in config.cleanup_policy
    limit, lifetime = (config.retention_bytes, config.retention_ms) if deletes else (-1, -1)
    excess = sum(segment.size for segment in segments) - limit if limit >= 0 else -1
    bases = [segment.base_offset for segment in segments[1:]]
    for at, segment in enumerate(segments):
        last = at == len(bases)
        following = end_offset if last else bases[at]
        if high_watermark < following or (last and not segment.size):
            return
        if not last and following <= start_offset:
            yield Breach.LOG_START
        elif limit >= 0 and excess >= segment.size:
            yield Breach.SIZE
        elif lifetime >= 0 and now_ms - segment.newest_ms() > lifetime:
            yield Breach.TIME
        else:
            return
        excess -= segment.size
