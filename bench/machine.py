"""The machine of a run, as far as a reader of its figures needs it: no names, no addresses, no paths."""

from __future__ import annotations

import os
import platform
from pathlib import Path


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
