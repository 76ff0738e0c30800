"""A broker's data directories: file system, mount options, disk and space (A1 HW-01, HW-02, HW-10, HW-11; B CLU-13)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ottla.cli.host.finding import ADVICE, OK, PROBLEM, Finding, size
from ottla.cli.host.view import Host, Mount

FREE_SHARE = 0.10
FREE_SHARE_AT_LEAST = 0.03
VOLATILE = ("tmpfs", "ramfs")
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p")


def check(host: Host, directories: Sequence[Path]) -> Iterator[Finding]:
    devices: dict[str, Path] = {}
    for directory in directories:
        place = _existing(host, directory)
        yield from _usable(host, directory, place)
        mount = host.mount_of(place)
        if mount is not None:
            yield _file_system(directory, mount)
            yield from _access_times(directory, mount)
            yield from _disk(host, directory, mount)
            if mount.device in devices:
                yield Finding(
                    ADVICE,
                    f"{directory} disk",
                    f"the same file system as {devices[mount.device]}",
                    "one of its own",
                    "several directories are there to spread the load over disks",
                )
            devices.setdefault(mount.device, directory)
        yield from _space(host, directory, place)


def _existing(host: Host, directory: Path) -> Path:
    """The directory, or the nearest one above it that is there."""
    return next(
        (one for one in (directory, *directory.parents) if (host.root / str(one).lstrip("/")).exists()), directory
    )


def _usable(host: Host, directory: Path, place: Path) -> Iterator[Finding]:
    if not host.writable(host.root / str(place).lstrip("/")):
        yield Finding(
            PROBLEM,
            f"{directory} access",
            f"{place} cannot be written by this user",
            "owned by the broker's user",
            "a broker has to write there",
            f'sudo mkdir -p {directory} && sudo chown "$(id -un)" {directory}',
        )


def _file_system(directory: Path, mount: Mount) -> Finding:
    """XFS needs no tuning; ext4 gets better by settings that a power cut makes dear, which replicas pay for."""
    level, why, change = OK, "made for large files that are appended to", ""
    if mount.type in VOLATILE:
        level, why = PROBLEM, "all data are gone after a restart of the host"
    elif mount.type in REMOTE:
        level, why = PROBLEM, "locks, flushes and latency of a remote file system are not what a log needs"
    elif mount.type == "ext4":
        commit = next((one for one in mount.options if one.startswith("commit=")), "commit=5")
        if commit == "commit=5":
            why = "XFS needs no tuning; ext4 gains by a longer commit interval, where replicas hold what a crash takes"
            level, change = ADVICE, f"sudo mount -o remount,commit=120 {mount.point}  # and in /etc/fstab"
    elif mount.type != "xfs":
        level, why = ADVICE, "brokers are mostly run, and tested, on XFS"
    return Finding(level, f"{directory} file system", f"{mount.type} on {mount.point}", "xfs", why, change)


def _access_times(directory: Path, mount: Mount) -> Iterator[Finding]:
    if mount.type in VOLATILE or mount.type in REMOTE:
        return
    kept = next((one for one in ("noatime", "relatime") if one in mount.options), "atime")
    yield Finding(
        OK if kept == "noatime" else ADVICE,
        f"{directory} access times",
        kept,
        "noatime",
        "nobody reads them, and each read may write one",
        f"sudo mount -o remount,noatime {mount.point}  # and in /etc/fstab",
    )


def _disk(host: Host, directory: Path, mount: Mount) -> Iterator[Finding]:
    turns = host.rotates(mount)
    if turns is not None:
        yield Finding(
            ADVICE if turns else OK,
            f"{directory} disk",
            f"{mount.source}: {'a turning disk' if turns else 'solid state'}",
            "solid state, or several disks",
            "how fast records are written decides how fast producers get their answers",
        )


def _space(host: Host, directory: Path, place: Path) -> Iterator[Finding]:
    try:
        space = host.space(host.root / str(place).lstrip("/"))
    except OSError:
        return
    share = space.free / space.total if space.total else 0.0
    yield Finding(
        OK if share >= FREE_SHARE else ADVICE if share >= FREE_SHARE_AT_LEAST else PROBLEM,
        f"{directory} free space",
        f"{size(space.free)} of {size(space.total)} ({share:.0%})",
        f"{FREE_SHARE:.0%} or more",
        "a full disk takes no records; retention deletes by whole segments only",
        "ottla configs --alter --entity-type topics --entity-name TOPIC --add-config retention.bytes=BYTES",
    )
