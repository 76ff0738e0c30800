"""How fast a log is compacted, and in how much memory: `python -m bench.compaction [--records N] …`.

Writes the segments of one partition (1 KiB records, keys drawn at random from a million), compacts them in the process
that a broker uses for it, and prints what came of it. Nothing else takes part, so this is the speed of one of
`log.cleaner.threads`, with files that are in the page cache.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from pathlib import Path

from ottla.broker.compaction_workers import Worker
from ottla.protocol.compression import NAMES
from ottla.protocol.records import Record, build_batch
from ottla.storage.compaction.job import Job, Totals

SEGMENT = 256 * 1024 * 1024
MEMORY, LOAD_FACTOR, BUFFER = 128 * 1024 * 1024, 0.9, 512 * 1024  # a broker's defaults


def write_log(directory: Path, records: int, *, size: int, keys: int, batch: int, codec: int) -> int:
    """Write the segments; returns their bytes."""
    chance, value = random.Random(1), os.urandom(size // 2) + bytes(size - size // 2)
    total = offset = in_segment = 0
    file = (directory / f"{0:020d}.log").open("wb")
    now = int(time.time() * 1000)
    while offset < records:
        if in_segment > SEGMENT:
            file.close()
            file, in_segment = (directory / f"{offset:020d}.log").open("wb"), 0
        count = min(batch, records - offset)
        made = [Record(offset + at, now, b"key-%09d" % chance.randrange(keys), value) for at in range(count)]
        data = build_batch(made, base_offset=offset, codec=codec)
        file.write(data)
        in_segment, total, offset = in_segment + len(data), total + len(data), offset + count
    file.close()
    return total


async def compact(directory: Path, segments: list[int], end: int) -> Totals:
    worker = await Worker.start()
    try:
        return await worker.clean(
            Job(
                directory=str(directory),
                segments=segments,
                first_dirty=0,
                end=end,
                producers=[],
                now_ms=int(time.time() * 1000),
                delete_retention_ms=86_400_000,
                segment_bytes=1 << 30,
                index_bytes=10 << 20,
                index_interval=4096,
                levels=[None] * len(NAMES),
                memory=MEMORY,
                load_factor=LOAD_FACTOR,
                buffer=BUFFER // 2,
                bytes_per_second=1e300,
            ),
            lambda group: None,
        )
    finally:
        await worker.end()


def main(arguments: list[str] | None = None) -> Totals:
    parser = argparse.ArgumentParser(prog="bench.compaction", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a record's value")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=16, help="records in a batch")
    parser.add_argument("--codec", choices=NAMES, default="none")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as name:
        codec = NAMES.index(given.codec)
        total = write_log(Path(name), given.records, size=given.size, keys=given.keys, batch=given.batch, codec=codec)
        segments = sorted(int(path.stem) for path in Path(name).glob("*.log"))
        done = asyncio.run(compact(Path(name), segments, given.records))
    print(
        f"{total / 1e6:,.0f} MB to {done.bytes_written / 1e6:,.0f} MB, {done.records_read:,} to {done.records_kept:,} "
        f"records in {done.seconds:.1f} s: {total / 1e6 / done.seconds:,.0f} MB/s, at most "
        f"{done.peak_memory / 1e6:,.0f} MB of memory"
    )
    return done


if __name__ == "__main__":
    main()
