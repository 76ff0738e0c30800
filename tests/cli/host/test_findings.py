"""The doctor's judgement, over hosts that are directories with the files that /proc and /sys would have."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.cli.doctor import examine
from ottla.cli.host import directories, kernel, listeners
from ottla.cli.host.finding import Finding, size
from ottla.cli.host.view import Host, Space
from ottla.config.broker import BrokerConfig

GIB = 2**30

# A host as the texts want it.
WELL = {
    "proc/self/limits": "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024  100000  files\n",
    "proc/sys/vm/max_map_count": "262144",
    "proc/sys/vm/swappiness": "1",
    "proc/sys/vm/dirty_background_ratio": "5",
    "proc/sys/vm/dirty_background_bytes": "0",
    "proc/sys/vm/dirty_ratio": "60",
    "proc/sys/vm/dirty_bytes": "0",
    "proc/meminfo": "MemTotal:       1000 kB\nSwapTotal:  1000 kB\nSwapFree:  990 kB\n",
    "proc/vmstat": "nr_dirty 10\nnr_writeback 0\nnr_dirty_threshold 1000\nnr_dirty_background_threshold 500\n",
    "proc/sys/net/core/wmem_default": "131072",
    "proc/sys/net/core/rmem_default": "131072",
    "proc/sys/net/core/wmem_max": "2097152",
    "proc/sys/net/core/rmem_max": "2097152",
    "proc/sys/net/ipv4/tcp_wmem": "4096\t65536\t2048000",
    "proc/sys/net/ipv4/tcp_rmem": "4096\t65536\t2048000",
    "proc/sys/net/ipv4/tcp_window_scaling": "1",
    "proc/sys/net/ipv4/tcp_max_syn_backlog": "2048",
    "proc/sys/net/core/netdev_max_backlog": "2000",
    "proc/self/mountinfo": (
        "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n30 22 8:17 / /kafka rw,noatime - xfs /dev/sdb1 rw\n"
    ),
    "sys/dev/block/8:17/queue/rotational": "0",
    "kafka/data/here": "",
}


@pytest.fixture
def host(tmp_path: Path) -> Callable[..., Host]:
    """A host that is well, with other files in the place of some; None: the file is not there."""

    def make(files: dict[str, str | None] | None = None, **functions: object) -> Host:
        for path, text in {**WELL, **(files or {})}.items():
            if text is not None:
                (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / path).write_text(text)
        defaults = {"synchronised": lambda: True, "space": lambda path: Space(100 * GIB, 50 * GIB), "page": 4096}
        return Host(tmp_path, **{**defaults, **functions})  # type: ignore[arg-type]

    return make


def worst(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(one.level, one.check) for one in findings if one.level != "ok"]


def test_a_host_as_the_texts_want_it_is_well(host) -> None:
    found = examine(host(), [Path("/kafka/data")])
    assert worst(found) == []
    assert {"open files", "vm.swappiness", "vm.dirty_ratio", "dirty pages", "swap in use", "clock"} <= {
        one.check for one in found
    }
    assert not any(one.change for one in found)


@pytest.mark.parametrize(
    ("file", "text", "level", "check", "change"),
    [
        ("proc/self/limits", "Max open files  1024  20000  files", "advice", "open files", "nofile 65536"),
        ("proc/self/limits", "Max open files  1024  1024  files", "problem", "open files", "nofile 65536"),
        ("proc/sys/vm/max_map_count", "65530", "advice", "vm.max_map_count", "vm.max_map_count = 262144"),
        ("proc/sys/vm/swappiness", "60", "advice", "vm.swappiness", "vm.swappiness = 1"),
        ("proc/sys/vm/swappiness", "0", "advice", "vm.swappiness", "vm.swappiness = 1"),
        ("proc/sys/vm/dirty_background_ratio", "10", "advice", "vm.dirty_background_ratio", "_ratio = 5"),
        ("proc/sys/vm/dirty_background_ratio", "0", "advice", "vm.dirty_background_ratio", "_ratio = 5"),
        ("proc/sys/vm/dirty_ratio", "20", "advice", "vm.dirty_ratio", "vm.dirty_ratio = 60"),
        ("proc/sys/vm/dirty_ratio", "90", "advice", "vm.dirty_ratio", "vm.dirty_ratio = 60"),
        ("proc/meminfo", "SwapTotal: 100 kB\nSwapFree: 50 kB", "advice", "swap in use", "swapoff"),
        ("proc/vmstat", "nr_dirty 900\nnr_writeback 0\nnr_dirty_threshold 1000", "advice", "dirty pages", "vmstat"),
        ("proc/sys/net/core/wmem_default", "65536", "advice", "net.core.wmem_default", "= 131072"),
        ("proc/sys/net/core/rmem_default", "65536", "advice", "net.core.rmem_default", "= 131072"),
        ("proc/sys/net/core/wmem_max", "212992", "advice", "net.core.wmem_max", "= 2097152"),
        ("proc/sys/net/core/rmem_max", "212992", "advice", "net.core.rmem_max", "= 2097152"),
        ("proc/sys/net/ipv4/tcp_wmem", "4096 16384 131072", "advice", "net.ipv4.tcp_wmem", "= 4096 65536 2048000"),
        ("proc/sys/net/ipv4/tcp_rmem", "4096 16384 131072", "advice", "net.ipv4.tcp_rmem", "= 4096 65536 2048000"),
        ("proc/sys/net/ipv4/tcp_window_scaling", "0", "advice", "net.ipv4.tcp_window_scaling", "= 1"),
        ("proc/sys/net/ipv4/tcp_max_syn_backlog", "1024", "advice", "net.ipv4.tcp_max_syn_backlog", "= 4096"),
        ("proc/sys/net/core/netdev_max_backlog", "1000", "advice", "net.core.netdev_max_backlog", "= 5000"),
    ],
)
def test_what_differs_from_the_advice_is_told_with_its_remedy(
    host, file: str, text: str, level: str, check: str, change: str
) -> None:
    found = [one for one in examine(host({file: text}), [Path("/kafka/data")]) if one.level != "ok"]
    assert [(one.level, one.check) for one in found] == [(level, check)]
    assert change in found[0].change
    assert found[0].advised
    assert found[0].why


def test_ratios_do_not_count_where_bytes_are_set(host) -> None:
    files = {"proc/sys/vm/dirty_ratio": "0", "proc/sys/vm/dirty_bytes": "1000000"}
    assert worst(list(kernel.check(host(files)))) == []


def test_a_clock_that_drifts_is_told_and_one_that_cannot_be_asked_is_not(host) -> None:
    assert worst(list(kernel.check(host(synchronised=lambda: False)))) == [("advice", "clock")]
    assert not [one for one in kernel.check(host(synchronised=lambda: None)) if one.check == "clock"]


def test_what_a_host_does_not_show_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/vm").mkdir(parents=True)
    (tmp_path / "proc/sys/vm/swappiness").write_text("nonsense")
    bare = Host(tmp_path, synchronised=lambda: None, space=lambda path: Space(10, 5))
    assert [one.check for one in examine(bare, [Path("/d")])] == ["/d free space"]


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ("30 22 8:17 / /kafka rw,relatime - xfs /dev/sdb1 rw", [("advice", "access times", "noatime /kafka")]),
        ("30 22 8:17 / /kafka rw - xfs /dev/sdb1 rw", [("advice", "access times", "noatime /kafka")]),
        ("30 22 8:17 / /kafka rw,noatime - ext4 /dev/sdb1 rw", [("advice", "file system", "commit=120 /kafka")]),
        ("30 22 8:17 / /kafka rw,noatime - ext4 /dev/sdb1 rw,commit=120", []),
        ("30 22 8:17 / /kafka rw,noatime - btrfs /dev/sdb1 rw", [("advice", "file system", "")]),
        ("30 22 0:40 / /kafka rw - nfs4 server:/kafka rw", [("problem", "file system", "")]),
        ("30 22 0:41 / /kafka rw - tmpfs tmpfs rw", [("problem", "file system", "")]),
        ("30 22 8:33 / /kafka rw,noatime - xfs /dev/sdc1 rw", [("advice", "disk", "")]),
        ("30 22 8:33 / /kafka rw,noatime - xfs /dev/vda1 rw", []),
        ("garbage\n30 22 8:17 / /kafka rw,noatime - xfs /dev/sdb1 rw\nmore - garbage", []),
        ("30 22 8:1 / / rw,relatime - ext4 /d rw\n31 22 8:17 / /kafka/data rw,noatime - xfs /dev/sdb1 rw", []),
        ("30 22 8:1 / /kaf rw,relatime - ext4 /d rw\n31 22 8:17 / /kafka rw,noatime - xfs /dev/sdb1 rw", []),
    ],
)
def test_data_directories_are_judged_by_where_they_are_mounted(
    host, mounts: str, expected: list[tuple[str, str, str]]
) -> None:
    files = {"proc/self/mountinfo": mounts, "sys/dev/block/8:33/queue/rotational": "1"}
    found = [one for one in examine(host(files), [Path("/kafka/data")]) if one.level != "ok"]
    assert [(one.level, one.check) for one in found] == [
        (level, f"/kafka/data {check}") for level, check, _ in expected
    ]
    for one, (_, _, change) in zip(found, expected):
        assert change in one.change


@pytest.mark.parametrize(("free", "level"), [(10, "ok"), (9, "advice"), (3, "advice"), (2, "problem"), (0, "problem")])
def test_free_space_is_a_share_of_the_whole(host, free: int, level: str) -> None:
    (found,) = (
        one
        for one in directories.check(host(space=lambda path: Space(100 * GIB, free * GIB)), [Path("/kafka/data")])
        if one.check == "/kafka/data free space"
    )
    assert found.level == level
    assert f"({free}%)" in found.found


def test_two_directories_on_one_file_system_share_its_disk(host) -> None:
    found = worst(list(directories.check(host(), [Path("/kafka/data"), Path("/kafka/more")])))
    assert found == [("advice", "/kafka/more disk")]


def test_a_directory_that_cannot_be_written_is_a_problem_one_that_can_be_made_is_not(host) -> None:
    asked: list[Path] = []

    def writable(path: Path) -> bool:
        asked.append(path)
        return False

    here = host(writable=writable)
    found = worst(list(directories.check(here, [Path("/kafka/new/deep")])))
    assert found == [("problem", "/kafka/new/deep access")]
    assert asked == [here.root / "kafka"]


def _resolve(name: str) -> None:
    name.encode("idna")  # as getaddrinfo does
    if name != "kafka.example.com":
        raise socket.gaierror(-2, "Name or service not known")


@pytest.mark.parametrize(
    ("properties", "levels"),
    [
        ({"listeners": "PLAINTEXT://:9092"}, ["ok"]),
        ({"advertised.listeners": "PLAINTEXT://kafka.example.com:9092"}, ["ok"]),
        ({"advertised.listeners": "PLAINTEXT://10.1.2.3:9092"}, ["ok"]),
        ({"advertised.listeners": "PLAINTEXT://localhost:9092"}, ["advice"]),
        ({"advertised.listeners": "PLAINTEXT://127.0.0.1:9092"}, ["advice"]),
        ({"advertised.listeners": "PLAINTEXT://34.56.78.90:9092"}, ["advice"]),
        ({"advertised.listeners": "PLAINTEXT://nowhere.example.com:9092"}, ["problem"]),
        ({"listeners": "PLAINTEXT://localhost:9092"}, ["advice"]),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, ["ok"]),
        ({"listeners": f"PLAINTEXT://{'x' * 70}:9092"}, ["problem"]),
    ],
)
def test_advertised_addresses_must_be_such_as_clients_can_reach(
    host, properties: dict[str, str], levels: list[str]
) -> None:
    config = BrokerConfig.from_properties(properties)
    found = list(listeners.check(host(resolve=_resolve), config))
    assert [one.level for one in found] == levels
    assert all(bool(one.change) == (one.level != "ok") for one in found)


def test_the_problems_come_last(host) -> None:
    files = {"proc/self/limits": "Max open files  1024  1024  files", "proc/sys/vm/swappiness": "60"}
    levels = [one.level for one in examine(host(files), [Path("/kafka/data")])]
    assert levels == sorted(levels, key=["ok", "advice", "problem"].index)
    assert levels[-2:] == ["advice", "problem"]


def test_sizes_are_told_in_words() -> None:
    assert [size(one) for one in (0, 1023, 1024, 5 * 2**20, 3 * GIB, 5000 * GIB)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 MiB",
        "3.0 GiB",
        "4.9 TiB",
    ]
