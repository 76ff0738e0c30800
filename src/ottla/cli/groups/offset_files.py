"""Files of offsets, as Kafka's ExportZkOffsets wrote them (A3 O4): a line for each partition.

    /consumers/testgroup/offsets/my-topic/0:8905

A group's name may hold slashes, a topic's cannot. Empty lines do not count; any other line that is not of this form is
named with its number, and then nothing of the file is used.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ottla.cli.common.invocation import Misconfigured
from ottla.cli.groups.offsets import Partition

LINE = re.compile(r"/consumers/(.+)/offsets/([^/]+)/([0-9]{1,10}):([0-9]{1,19})", re.ASCII)


def text_of(file: str) -> str:
    """What a file holds; `-` is stdin."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except OSError as error:
        raise Misconfigured(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise Misconfigured(f"cannot read {file}: it is no text in UTF-8") from None


def lines(group: str, offsets: Mapping[Partition, int]) -> Iterator[str]:
    for (topic, number), offset in offsets.items():
        yield f"/consumers/{group}/offsets/{topic}/{number}:{offset}"


def read(text: Iterable[str], file: str) -> dict[str, dict[Partition, int]]:
    """Offsets by group and partition. Misconfigured names all lines that are none."""
    found: dict[str, dict[Partition, int]] = {}
    problems = []
    for at, line in enumerate(text, 1):
        if not line.strip():
            continue
        match = LINE.fullmatch(line.strip())
        if match is None or int(match[3]) >= 2**31 or int(match[4]) >= 2**63:
            problems.append(f"line {at}: {line.strip()!r} is not /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET")
            continue
        group, partition, offset = match[1], Partition(match[2], int(match[3])), int(match[4])
        if found.setdefault(group, {}).setdefault(partition, offset) != offset:
            problems.append(f"line {at}: another offset of {partition} in group {group} stands above")
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise Misconfigured(f"{file}, {problems[0]}{more}; nothing is imported")
    return found
