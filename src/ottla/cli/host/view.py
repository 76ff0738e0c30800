"""What this host is like, read from /proc and /sys under a root, so that a test can give it another host.

Whatever a container or another kernel does not show is None; a check then has nothing to say.
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

TIME_ERROR = 5  # adjtimex(2): the clock is not synchronised
VIRTUAL_DISKS = ("/dev/vd", "/dev/xvd")


class Mount(NamedTuple):
    point: Path
    type: str
    options: frozenset[str]  # of the mount and of the file system
    source: str
    device: str  # MAJOR:MINOR


class Space(NamedTuple):
    total: int
    free: int


class Host:
    """The host under `root`; what cannot be read from files comes from the functions given."""

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        resolve: Callable[[str], object] = lambda name: socket.getaddrinfo(name, None),
        synchronised: Callable[[], bool | None] | None = None,
        space: Callable[[Path], Space] | None = None,
        writable: Callable[[Path], bool] = lambda path: os.access(path, os.W_OK),
        page: int = os.sysconf("SC_PAGESIZE"),
    ) -> None:
        self.root = root
        self.page = page
        self.resolve = resolve
        self.synchronised = synchronised or _synchronised
        self.space = space or _space
        self.writable = writable

    def text(self, path: str) -> str | None:
        try:
            return (self.root / path.lstrip("/")).read_text().strip()
        except (OSError, UnicodeDecodeError):
            return None

    def sysctl(self, name: str) -> list[int] | None:
        """The numbers of a kernel setting, `vm.swappiness`."""
        text = self.text("proc/sys/" + name.replace(".", "/"))
        try:
            return [int(word) for word in text.split()] if text else None
        except ValueError:
            return None

    def table(self, path: str) -> dict[str, int]:
        """Lines of a name and a number, as /proc/vmstat and /proc/meminfo have them."""
        found = re.findall(r"^([\w()]+):?\s+(\d+)", self.text(path) or "", re.MULTILINE)
        return {name: int(number) for name, number in found}

    def open_files(self) -> int | None:
        """How many files a process may open at most; a broker raises its own limit to that."""
        match = re.search(r"^Max open files\s+\S+\s+(\S+)", self.text("proc/self/limits") or "", re.MULTILINE)
        if match is None:
            return None
        return int(match[1]) if match[1].isdigit() else 2**31

    def mount_of(self, directory: Path) -> Mount | None:
        """Where a directory is mounted: the longest mount point above it, the last one of equals."""
        found: Mount | None = None
        for line in (self.text("proc/self/mountinfo") or "").splitlines():
            mount = _mount(line)
            if mount is None or not directory.is_relative_to(mount.point):
                continue
            if found is None or len(mount.point.parts) >= len(found.point.parts):
                found = mount
        return found

    def rotates(self, mount: Mount) -> bool | None:
        """Whether it lies on a disk that turns. A partition asks its disk; a virtual disk does not know."""
        if mount.source.startswith(VIRTUAL_DISKS):
            return None
        block = f"sys/dev/block/{mount.device}"
        for place in (f"{block}/queue/rotational", f"{block}/../queue/rotational"):
            if (text := self.text(place)) is not None:
                return text == "1"
        return None


def _mount(line: str) -> Mount | None:
    """A line of /proc/self/mountinfo; blanks in names are written as \\040."""
    left, _, right = line.partition(" - ")
    fields, kind = left.split(), right.split()
    if len(fields) < 6 or len(kind) < 3:
        return None
    point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
    return Mount(Path(point), kind[0], frozenset((fields[5] + "," + kind[2]).split(",")), kind[1], fields[2])


def _space(path: Path) -> Space:
    figures = os.statvfs(path)
    return Space(figures.f_blocks * figures.f_frsize, figures.f_bavail * figures.f_frsize)


def _synchronised() -> bool | None:
    """Whether the kernel's clock is kept right by a time server; None where that cannot be asked."""
    try:
        status = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))  # all zero: only asks
    except (OSError, AttributeError):
        return None
    return None if status < 0 else status != TIME_ERROR
