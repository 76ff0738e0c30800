"""The check that lets go of old segments (`log.retention.check.interval.ms`); what may go, storage/retention.py says.

It works on the loop, partition by partition and some segments at a time, and steps aside in between: requests wait
for one step at most. The files are renamed at once and removed `file.delete.delay.ms` later.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING

from ottla.replication.partition import Partition
from ottla.storage.errors import StorageError
from ottla.storage.retention import breaches

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

STEP_SECONDS = 0.001
STEP_SEGMENTS = 16


async def check_retention(broker: Broker) -> None:
    """Look at every partition once."""
    began = monotonic()
    for partition in list(broker.replicas):
        try:
            await _check(broker, partition)
        except (OSError, StorageError) as error:
            partition.log.failed(error)
        if monotonic() - began > STEP_SECONDS:
            await asyncio.sleep(0)
            began = monotonic()


async def _check(broker: Broker, partition: Partition) -> None:
    while broker.partition(partition.topic, partition.index) is partition:  # its topic may be deleted meanwhile
        partition_log = partition.log
        found = breaches(
            partition_log.segments,
            start_offset=partition_log.start_offset,
            end_offset=partition_log.end_offset,
            high_watermark=partition.high_watermark,
            config=partition_log.config,
            now_ms=broker.now_ms(),
        )
        reasons = list(islice(found, STEP_SEGMENTS))
        if not reasons:
            return
        first = partition_log.segments[0].base_offset
        aside = partition_log.delete_oldest(len(reasons))
        broker.housekeeping.remove_later(aside, partition_log.config.file_delete_delay_ms)
        log.info(
            "%s: deleted %d segments, offsets %d to %d: %s",
            partition_log.directory.name,
            len(reasons),
            first,
            partition_log.segments[0].base_offset - 1,
            "; ".join(dict.fromkeys(reason.value for reason in reasons)),
        )
        if len(reasons) < STEP_SEGMENTS:
            return
        await asyncio.sleep(0)
