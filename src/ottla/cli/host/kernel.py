"""Limits, memory, clock and network of a host against the advice (A1 HW-06…HW-14, HW-19; B CLU-13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ottla.cli.host.finding import ADVICE, OK, PROBLEM, Finding, set_sysctl, size
from ottla.cli.host.view import Host

OPEN_FILES = 65536
OPEN_FILES_AT_LEAST = 4096


class Sysctl(NamedTuple):
    """Advice for one kernel setting."""

    name: str
    fits: Callable[[list[int]], bool]
    advised: str
    value: str  # what the command sets
    why: str
    level: str = ADVICE  # where it does not fit


def _last_at_least(least: int) -> Callable[[list[int]], bool]:
    return lambda numbers: numbers[-1] >= least


SYSCTLS = (
    Sysctl("vm.max_map_count", _last_at_least(262144), "262144 or more", "262144", "a segment maps two index files"),
    Sysctl(
        "vm.swappiness",
        lambda numbers: numbers[0] == 1,
        "1",
        "1",
        "pages of the broker must not give way to the page cache; 0 would have it killed rather than swapped",
    ),
    Sysctl(
        "net.core.wmem_default",
        _last_at_least(131072),
        "131072 or more",
        "131072",
        "room for what a socket sends",
    ),
    Sysctl(
        "net.core.rmem_default",
        _last_at_least(131072),
        "131072 or more",
        "131072",
        "room for what a socket receives",
    ),
    Sysctl("net.core.wmem_max", _last_at_least(2097152), "2097152 or more", "2097152", "room on links with a long way"),
    Sysctl("net.core.rmem_max", _last_at_least(2097152), "2097152 or more", "2097152", "room on links with a long way"),
    Sysctl(
        "net.ipv4.tcp_wmem",
        _last_at_least(2048000),
        "4096 65536 2048000",
        "4096 65536 2048000",
        "how far the send buffer of a connection may grow",
    ),
    Sysctl(
        "net.ipv4.tcp_rmem",
        _last_at_least(2048000),
        "4096 65536 2048000",
        "4096 65536 2048000",
        "how far the receive buffer of a connection may grow",
    ),
    Sysctl("net.ipv4.tcp_window_scaling", lambda numbers: numbers[0] == 1, "1", "1", "else no buffer exceeds 64 KiB"),
    Sysctl(
        "net.ipv4.tcp_max_syn_backlog",
        lambda numbers: numbers[0] > 1024,
        "more than 1024",
        "4096",
        "many clients connect at once after a restart",
    ),
    Sysctl(
        "net.core.netdev_max_backlog",
        lambda numbers: numbers[0] > 1000,
        "more than 1000",
        "5000",
        "packets wait here when they come faster than they are taken",
    ),
)


def check(host: Host) -> Iterator[Finding]:
    """What the kernel's settings and its state are, and should be."""
    yield from _open_files(host)
    yield from _sysctls(host, "vm.")
    yield from _swap(host)
    yield from _dirty_ratios(host)
    yield from _dirty_pages(host)
    yield from _clock(host)
    yield from _sysctls(host, "net.")


def _sysctls(host: Host, prefix: str) -> Iterator[Finding]:
    for one in SYSCTLS:
        numbers = host.sysctl(one.name) if one.name.startswith(prefix) else None
        if numbers:
            level = OK if one.fits(numbers) else one.level
            found = " ".join(map(str, numbers))
            yield Finding(level, one.name, found, one.advised, one.why, set_sysctl(one.name, one.value))


def _open_files(host: Host) -> Iterator[Finding]:
    limit = host.open_files()
    if limit is None:
        return
    level = OK if limit >= OPEN_FILES else ADVICE if limit >= OPEN_FILES_AT_LEAST else PROBLEM
    yield Finding(
        level,
        "open files",
        str(limit),
        f"{OPEN_FILES} or more",
        "each segment, index and connection is an open file; a broker without any left stops serving",
        f"echo '* - nofile {OPEN_FILES}' | sudo tee /etc/security/limits.d/60-kafka.conf"
        f"  # and log in again; under systemd LimitNOFILE={OPEN_FILES}",
    )


def _swap(host: Host) -> Iterator[Finding]:
    memory = host.table("proc/meminfo")
    if "SwapTotal" not in memory:
        return
    total, used = memory["SwapTotal"], memory["SwapTotal"] - memory.get("SwapFree", 0)
    yield Finding(
        ADVICE if used > total // 10 else OK,
        "swap in use",
        f"{size(used * 1024)} of {size(total * 1024)}",
        "next to none",
        "a broker whose memory is on disk answers late",
        "sudo swapoff -a && sudo swapon -a",
    )


def _dirty_ratios(host: Host) -> Iterator[Finding]:
    """Ratios count unless the settings in bytes are in their place."""
    for name, low, high, value, why in (
        ("vm.dirty_background_ratio", 1, 5, "5", "flush early and steadily, not in bursts"),
        ("vm.dirty_ratio", 60, 80, "60", "writers wait only when much is unflushed; replicas hold what a crash takes"),
    ):
        ratio, in_bytes = host.sysctl(name), host.sysctl(name.replace("_ratio", "_bytes"))
        if ratio is None or (in_bytes and in_bytes[0]):
            continue
        advised = f"{low} to {high}"
        yield Finding(
            OK if low <= ratio[0] <= high else ADVICE, name, str(ratio[0]), advised, why, set_sysctl(name, value)
        )


def _dirty_pages(host: Host) -> Iterator[Finding]:
    pages = host.table("proc/vmstat")
    if "nr_dirty" not in pages:
        return
    dirty, writing = pages["nr_dirty"], pages.get("nr_writeback", 0)
    most = pages.get("nr_dirty_threshold", 0)
    behind = 0 < most < (dirty + writing) * 1.25
    yield Finding(
        ADVICE if behind else OK,
        "dirty pages",
        f"{size(dirty * host.page)}, {size(writing * host.page)} being written",
        f"well below {size(most * host.page)}" if most else "few",
        "at that mark everybody who writes has to wait for the disks",
        "grep -E 'nr_(dirty|writeback) ' /proc/vmstat  # over time: are the disks fast enough?" if behind else "",
    )


def _clock(host: Host) -> Iterator[Finding]:
    right = host.synchronised()
    if right is None:
        return
    yield Finding(
        OK if right else ADVICE,
        "clock",
        "kept right" if right else "not synchronised",
        "kept right by a time server",
        "retention and lookups by time go by clocks of hosts",
        "sudo apt-get install chrony",
    )
