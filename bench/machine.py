"""The machine of a run: what a reader of its figures needs to know of it (no names, no addresses, no paths), how busy
it is, and its memory made ready."""

from __future__ import annotations

import os
import platform
from pathlib import Path

TICKS_PER_SECOND = 100  # USER_HZ: the unit of /proc/stat


def describe() -> dict[str, str]:
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{int((_field('/proc/meminfo', 'MemTotal') or '0 kB').split()[0]) / (1 << 20):.0f} GiB",
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "system": _field("/etc/os-release", "PRETTY_NAME", "=").strip('"'),
    }


def _field(path: str, name: str, separator: str = ":") -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(separator)
        if key.strip() == name:
            return value.strip()
    return ""


def busy_seconds() -> float:
    """Processor seconds that the whole machine has spent, idle and waiting for disks left out."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND


def touch_page_cache(directory: Path, size: int) -> None:
    """Writes a file of `size` bytes and removes it.

    A virtual machine gets memory from its host page by page on first touch, and may give free memory back; a cold page
    costs up to ten times a warm one, and the cost is charged to whoever writes the file. Runs that write start warm.
    """
    path, block = directory / "touch", bytes(1 << 20)
    with path.open("wb", buffering=0) as file:
        for _ in range(-(-size // len(block))):
            file.write(block)
    path.unlink()
