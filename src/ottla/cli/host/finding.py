"""One thing that was looked at: what it is, what is advised and why, and how to change it."""

from __future__ import annotations

from typing import NamedTuple

OK, ADVICE, PROBLEM = "ok", "advice", "problem"


class Finding(NamedTuple):
    level: str
    check: str
    found: str
    advised: str
    why: str
    change: str = ""  # a command, where one does it


def set_sysctl(name: str, value: str) -> str:
    """The command that changes a kernel setting, now and after a restart."""
    return f"echo '{name} = {value}' | sudo tee -a /etc/sysctl.d/60-kafka.conf && sudo sysctl --system"


def size(count: float) -> str:
    """Bytes in words."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
