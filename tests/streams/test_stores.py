"""Stores that follow topics: what look-ups see, also after restarts, deleted topics, damage and transactions."""

from __future__ import annotations

import struct
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Bytes, Json, Long, Text
from ottla.streams.store_file import StoreInUse
from ottla.streams.stores import Store, StoreError, WindowedKey
from support.consoles import fresh
from support.waiting import wait_until


class Table:
    """A compacted topic of one's own."""

    def __init__(self, bootstrap: str, partitions: int = 2, policy: str = "compact") -> None:
        self.bootstrap, self.name, self.partitions, self.policy = bootstrap, fresh("table"), partitions, policy
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self.create()

    def create(self) -> None:
        new = NewTopic(self.name, self.partitions, 1, config={"cleanup.policy": self.policy})
        self.admin.create_topics([new])[self.name].result(30)

    def delete(self) -> None:
        self.admin.delete_topics([self.name])[self.name].result(30)

    def put(self, *records: tuple[bytes | str | None, bytes | str | None], **where: int) -> None:
        refused = []
        for key, value in records:
            self.producer.produce(self.name, value, key, **where, on_delivery=lambda error, _: refused.append(error))
        assert self.producer.flush(30) == 0
        assert not any(refused), refused

    @contextmanager
    def store(self, directory: Path, key=Text, value=Text, windowed=None, **more):
        with Store(
            "S", self.name, key, value, windowed, bootstrap=self.bootstrap, directory=directory, **more
        ) as store:
            store.wait_until_current()
            yield store


@pytest.fixture
def table(ottla_shared_broker) -> Table:
    return Table(ottla_shared_broker.bootstrap)


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def windowed(key: str, start: int) -> bytes:
    return key.encode() + struct.pack(">q", start)


def session(key: str, start: int, end: int) -> bytes:
    return key.encode() + struct.pack(">qq", end, start)


def test_a_store_has_the_latest_value_of_each_key_and_none_of_deleted_ones(table, tmp_path):
    table.put(("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("b", None), ("never", None))
    with table.store(tmp_path) as store:
        assert store.get("a") == "3"
        assert store.get("b") is None
        assert store.get("unknown") is None
        assert list(store.all()) == [("a", "3"), ("c", "4")]
        assert store.count() == 2
        assert store.lag == 0
        table.put(("b", "5"), ("a", None))
        store.wait_until_current()
        assert dict(store.all()) == {"b": "5", "c": "4"}


def test_ranges_are_in_the_order_of_the_keys_bytes_and_include_both_ends(table, tmp_path):
    table.put(*((word, word) for word in ["b", "é", "a", "B", "ba", "c"]))
    with table.store(tmp_path) as store:
        assert [key for key, _ in store.all()] == ["B", "a", "b", "ba", "c", "é"]
        assert [key for key, _ in store.all(reverse=True)] == ["é", "c", "ba", "b", "a", "B"]
        assert [key for key, _ in store.range("a", "ba")] == ["a", "b", "ba"]
        assert [key for key, _ in store.range("b", "c", reverse=True)] == ["c", "ba", "b"]
        assert [key for key, _ in store.range("c")] == ["c", "é"]
        assert [key for key, _ in store.range(last="a")] == ["B", "a"]
        assert list(store.range("x", "a")) == []


def test_numbers_as_keys_are_in_order_with_the_negative_ones_last(table, tmp_path):
    table.put(*((struct.pack(">q", number), b"{}") for number in [5, -1, 0, 300, -7]))
    with table.store(tmp_path, Long, Json) as store:
        assert [key for key, _ in store.all()] == [0, 5, 300, -7, -1]
        assert store.get(300) == {}


def test_records_that_the_serdes_cannot_read_change_nothing_and_are_counted(ottla_shared_broker, tmp_path):
    table = Table(ottla_shared_broker.bootstrap, policy="delete")  # a table's source may have records without keys
    table.put(("a", '{"n":1}'), (None, '{"n":2}'), (b"\xff\xfe", '{"n":3}'), ("a", "{no json"))
    with table.store(tmp_path, Text, Json) as store:
        assert list(store.all()) == [("a", {"n": 1})]
        assert store.rejected == 3


def test_a_restart_goes_on_from_the_file_without_reading_the_topic_again(ottla_shared_broker, tmp_path):
    table = Table(ottla_shared_broker.bootstrap, policy="delete")
    table.put(("a", "1"), ("b", "1"), (None, "?"), partition=1)
    with table.store(tmp_path) as store:
        assert (store.count(), store.rejected) == (2, 1)
    with table.store(tmp_path) as store:
        assert (store.count(), store.rejected) == (2, 0)
    end = TopicPartition(table.name, 1, 3)
    table.admin.delete_records([end])[end].result(30)  # to read again would find nothing
    table.put(("b", None), ("c", "2"), partition=1)
    with table.store(tmp_path) as store:
        assert dict(store.all()) == {"a": "1", "c": "2"}


def test_look_ups_answer_from_the_file_while_the_broker_is_away(ottla_broker, tmp_path):
    table = Table(ottla_broker.bootstrap)
    table.put(("a", "1"))
    with table.store(tmp_path):
        pass
    ottla_broker.stop()
    with Store("S", table.name, Text, Text, bootstrap=table.bootstrap, directory=tmp_path) as store:
        began = monotonic()
    assert monotonic() - began < 5  # though it is just then asking the broker
    with Store("S", table.name, Text, Text, bootstrap=table.bootstrap, directory=tmp_path) as store:
        assert store.get("a") == "1"
        with pytest.raises(StoreError, match=f"store S .* no broker answers at {table.bootstrap}"):
            store.wait_until_current(0.5)
        ottla_broker.start()
        table.put(("a", "2"))
        wait_until(lambda: store.get("a") == "2")
        store.wait_until_current()
        assert store.trouble is None


def test_a_topic_that_does_not_exist_yet_is_waited_for(ottla_shared_broker, tmp_path):
    table = Table(ottla_shared_broker.bootstrap)
    table.name = fresh("later")
    with Store("S", table.name, Text, Text, bootstrap=table.bootstrap, directory=tmp_path) as store:
        with pytest.raises(StoreError, match=f"topic {table.name} does not exist"):
            store.wait_until_current()
        table.create()
        table.put(("a", "1"))
        store.wait_until_current()
        assert store.get("a") == "1"


def test_a_topic_that_is_deleted_and_made_again_starts_the_store_anew(table, tmp_path):
    table.put(("old", "1"), ("both", "1"))
    with table.store(tmp_path) as store:
        table.delete()
        table.create()
        table.put(*[("both", "2"), ("new", "2")] * 3)  # as long as the old one, and longer
        store.wait_until_current()
        assert dict(store.all()) == {"both": "2", "new": "2"}
    table.delete()
    table.create()
    with table.store(tmp_path) as store:
        assert list(store.all()) == []


def test_a_place_that_the_topic_has_no_more_starts_the_store_anew(ottla_shared_broker, tmp_path):
    table = Table(ottla_shared_broker.bootstrap, policy="delete")
    table.put(("a", "1"), partition=0)
    with table.store(tmp_path) as store:
        assert store.count() == 1
    table.put(("b", "1"), ("c", "1"), partition=0)
    end = TopicPartition(table.name, 0, 2)
    table.admin.delete_records([end])[end].result(30)
    with table.store(tmp_path) as store:
        assert dict(store.all()) == {"c": "1"}  # nobody can tell what became of a and b


def test_partitions_that_are_added_are_followed(table, tmp_path):
    table.put(("a", "1"))
    with table.store(tmp_path) as store:
        table.admin.create_partitions([NewPartitions(table.name, 5)])[table.name].result(30)
        wait_until(lambda: len(table.admin.list_topics(table.name).topics[table.name].partitions) == 5)
        other = Producer({"bootstrap.servers": table.bootstrap})
        other.produce(table.name, "2", "b", partition=4)
        assert other.flush(30) == 0
        store.wait_until_current()
        assert dict(store.all()) == {"a": "1", "b": "2"}


def test_only_committed_records_are_seen_and_ends_of_transactions_are_not_waited_for(table, tmp_path):
    producer = Producer({"bootstrap.servers": table.bootstrap, "transactional.id": fresh("id"), "linger.ms": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(table.name, "1", "a", partition=0)
    producer.commit_transaction(30)
    with table.store(tmp_path) as store:
        assert store.get("a") == "1"
        producer.begin_transaction()
        producer.produce(table.name, "2", "a", partition=0)
        producer.produce(table.name, "2", "b", partition=1)
        producer.flush(30)
        store.wait_until_current()  # with what is committed
        assert dict(store.all()) == {"a": "1"}
        producer.abort_transaction(30)
        store.wait_until_current()
        assert dict(store.all()) == {"a": "1"}
        wait_until(lambda: store.lag == 0)


def test_time_windows_are_found_by_key_and_start(table, tmp_path):
    for start in (0, 5000, 10_000):
        table.put((windowed("ibm", start), f"i{start}"), (windowed("ib", start), f"x{start}"))
    table.put((windowed("ibm", 5000), None), (b"short", "?"), (struct.pack(">q", -1), "?"))
    with table.store(tmp_path, windowed="time", size_ms=5000) as store:
        assert store.get("ibm", 0) == "i0"
        assert store.get("ibm", at(10_000)) == "i10000"
        assert store.get("ibm", at(10_000).replace(tzinfo=None)) == "i10000"
        assert store.get("ibm", 5000) is None
        assert store.get("ibm", 1) is None
        assert list(store.fetch("ib", 1, 10_000)) == [
            (WindowedKey("ib", at(5000), at(10_000)), "x5000"),
            (WindowedKey("ib", at(10_000), at(15_000)), "x10000"),
        ]
        assert [value for _, value in store.fetch("ib", reverse=True)] == ["x10000", "x5000", "x0"]
        assert [value for _, value in store.fetch_all(at(5000), 9999)] == ["x5000"]
        assert [value for _, value in store.all()] == ["x0", "x5000", "x10000", "i0", "i10000"]
        assert [value for _, value in store.range("ibm", "z")] == ["i0", "i10000"]
        assert store.rejected == 2


def test_sessions_are_found_by_the_time_that_they_touch(table, tmp_path):
    table.put((session("a", 100, 300), "1"), (session("a", 1000, 1000), "2"), (session("b", 250, 900), "3"))
    table.put((session("a", 100, 300), None), (session("a", 100, 400), "4"))  # as a session that grows is written
    with table.store(tmp_path, windowed="session") as store:
        assert list(store.fetch("a")) == [
            (WindowedKey("a", at(100), at(400)), "4"),
            (WindowedKey("a", at(1000), at(1000)), "2"),
        ]
        assert store.get("a", 100) == "4"
        assert [value for _, value in store.fetch("a", 350, 999)] == ["4"]
        assert [value for _, value in store.fetch_all(400, 1000)] == ["4", "2", "3"]
        assert [value for _, value in store.fetch_all(401, 999)] == ["3"]


def test_windows_go_when_the_newest_ends_longer_than_the_retention_after_them(table, tmp_path):
    table.partitions = 1
    starts = [0, 1000, 60_000, 61_000]
    with table.store(tmp_path, windowed="time", size_ms=1000, grace_ms=500, retention_ms=60_000) as store:
        for start in starts:
            table.put((windowed("a", start), str(start)), partition=0)
            store.wait_until_current()
        assert [value for _, value in store.fetch("a")] == ["1000", "60000", "61000"]
    with table.store(tmp_path, windowed="time", size_ms=1000, grace_ms=500, retention_ms=60_000) as store:
        table.put((windowed("b", 500), "too late"), (windowed("b", 62_000), "new"), partition=0)
        store.wait_until_current()
        assert [value for _, value in store.all()] == ["60000", "61000", "new"]


def test_windows_are_kept_a_day_and_never_less_than_size_and_grace(table, tmp_path):
    with table.store(tmp_path, windowed="time", size_ms=1000) as store:
        assert store.retention_ms == 24 * 3600 * 1000
    with table.store(tmp_path, windowed="time", size_ms=7000, grace_ms=500, retention_ms=10) as store:
        assert store.retention_ms == 7500


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda store, _: store.get(None), "store S: a key cannot be null"),
        (lambda store, _: store.get("a", 5), "store S has no windows: get"),
        (lambda store, _: store.fetch("a"), "store S has no windows"),
        (lambda store, _: store.fetch_all(), "store S has no windows"),
        (lambda _, windows: windows.get("a"), "store S has windows: get.key, window_start."),
    ],
)
def test_a_question_that_does_not_fit_the_store_is_answered_with_the_one_that_does(table, tmp_path, ask, words):
    with (
        table.store(tmp_path / "plain") as store,
        table.store(tmp_path / "windowed", windowed="time", size_ms=5) as windows,
        pytest.raises(StoreError, match=words),
    ):
        ask(store, windows)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "ä", "x" * 201])
def test_a_store_has_a_name_that_a_file_can_have(name, tmp_path):
    with pytest.raises(StoreError, match="no name for a store"):
        Store(name, "topic", Text, Text, bootstrap="localhost:1", directory=tmp_path)


def test_time_windows_without_a_size_are_refused(tmp_path):
    with pytest.raises(StoreError, match="needs size_ms"):
        Store("S", "topic", Text, Text, "time", bootstrap="localhost:1", directory=tmp_path)


def test_a_store_is_one_run_s_at_a_time(table, tmp_path):
    with table.store(tmp_path), pytest.raises(StoreInUse, match="in use by another run"), table.store(tmp_path):
        pass
    with table.store(tmp_path):
        pass


def test_a_closed_store_says_so(table, tmp_path):
    with table.store(tmp_path) as store:
        pass
    for ask in (lambda: store.get("a"), lambda: list(store.all()), store.count, store.wait_until_current):
        with pytest.raises(PipelineError, match="store S is closed"):
            ask()
    store.close()


@pytest.mark.parametrize("damage", ["garbage", "truncated", "of another kind", "no database", "unfinished"])
def test_a_damaged_file_is_built_again_from_the_topic(table, tmp_path, damage):
    table.put(*((f"key-{number:05}", "x" * 50) for number in range(3000)))
    with table.store(tmp_path) as store:
        assert store.count() == 3000
    file = tmp_path / "S.sqlite"
    content = bytearray(file.read_bytes())
    match damage:
        case "garbage":
            content[8192:-8192] = b"\x55" * (len(content) - 16384)
        case "truncated":
            del content[len(content) // 2 :]
        case "no database":
            content[:] = b"something else"
        case "unfinished":
            content[:] = b""
        case "of another kind":
            with table.store(tmp_path, windowed="time", size_ms=1):
                content = bytearray(file.read_bytes())
    file.write_bytes(content)
    with table.store(tmp_path) as store:
        assert store.get("key-01500") == "x" * 50
        assert store.count() == 3000
        assert [key for key, _ in store.all()] == [f"key-{number:05}" for number in range(3000)]


def test_damage_that_a_look_up_finds_is_mended_before_it_is_answered(table, tmp_path):
    table.put(*((f"key-{number:05}", "x" * 50) for number in range(3000)))
    with table.store(tmp_path) as store:
        pass
    with table.store(tmp_path) as store:
        file = tmp_path / "S.sqlite"
        with file.open("r+b") as damaged:
            damaged.seek(4096)
            damaged.write(b"\x55" * (file.stat().st_size - 4096))
        assert store.get("key-01500") == "x" * 50
        assert len(list(store.all())) == 3000


def test_readers_of_several_threads_see_what_the_topic_said_at_some_moment_while_the_store_is_written(table, tmp_path):
    table.put(("a", "0"), ("b", "0"), partition=0)
    wrong, stop = [], threading.Event()

    def read(store: Store) -> None:
        last = 0
        while not stop.is_set():
            rows = dict(store.all())
            if not last <= int(rows["b"]) <= int(rows["a"]):
                wrong.append((last, rows))
            last = int(rows["b"])

    with table.store(tmp_path) as store:
        threads = [threading.Thread(target=read, args=(store,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(1, 300):
            table.producer.produce(table.name, str(number), "a", partition=0)
            table.producer.produce(table.name, str(number), "b", partition=0)
        table.producer.flush(30)
        store.wait_until_current()
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong
        assert dict(store.all()) == {"a": "299", "b": "299"}


def test_an_answer_that_is_being_read_does_not_change_and_holds_nobody_up(table, tmp_path):
    table.put(*((f"{number:04}", "old") for number in range(1000)))
    with table.store(tmp_path) as store:
        answer = store.all()
        assert next(answer) == ("0000", "old")
        table.put(*((f"{number:04}", "new") for number in range(1000)))
        store.wait_until_current()
        assert store.get("0999") == "new"
        assert {value for _, value in answer} == {"old"}


KILLED = """
import sys, time
from ottla.pipelines.serdes import Text
from ottla.streams.stores import Store
store = Store("S", sys.argv[1], Text, Text, bootstrap=sys.argv[2], directory=sys.argv[3])
while store.count() < 1:
    time.sleep(0.001)
print("reads", flush=True)
time.sleep(600)
"""


def test_a_process_that_is_killed_while_it_writes_leaves_a_store_that_the_next_one_completes(table, tmp_path):
    expected = {f"key-{number % 700:03}": str(number) for number in range(30_000)}
    for number in range(30_000):
        table.producer.produce(table.name, str(number), f"key-{number % 700:03}")
    assert table.producer.flush(30) == 0
    words = [sys.executable, "-c", KILLED, table.name, table.bootstrap, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "reads\n"
        process.kill()
    with table.store(tmp_path) as store:
        assert dict(store.all()) == expected
        assert store.rejected == 0


Change = st.tuples(st.binary(max_size=2), st.none() | st.binary(max_size=3))


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(runs=st.lists(st.lists(Change, max_size=12), min_size=1, max_size=3))
def test_after_any_changes_and_restarts_a_store_equals_a_dict(ottla_shared_broker, runs):
    table, expected = Table(ottla_shared_broker.bootstrap), {}
    with TemporaryDirectory() as directory:
        for changes in runs:
            with table.store(Path(directory), Bytes, Bytes) as store:
                for key, value in changes:
                    table.put((key, value), partition=sum(key) % 2)  # the client's own choice for b"" is a random one
                    expected[key] = value
                expected = {key: value for key, value in expected.items() if value is not None}
                store.wait_until_current()
                assert list(store.all()) == sorted(expected.items())
                assert store.count() == len(expected)
                for key in {key for key, _ in changes}:
                    assert store.get(key) == expected.get(key)


def test_a_look_up_takes_well_under_a_millisecond(table, tmp_path):
    table.put(*((f"key-{number:05}", '{"count": 1}') for number in range(20_000)))
    with table.store(tmp_path, Text, Json) as store:
        took = []
        for number in range(0, 20_000, 10):
            began = perf_counter()
            assert store.get(f"key-{number:05}") == {"count": 1}
            took.append(perf_counter() - began)
        took.sort()
        print(f"get: p50 {took[1000] * 1e6:.0f} us, p99 {took[1980] * 1e6:.0f} us", file=sys.stderr)
        assert took[1000] < 0.001
