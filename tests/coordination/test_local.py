"""What only the SQLite form promises: one opener at a time, a clean refusal of foreign files, survival of kill -9."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
from time import sleep

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from ottla.coordination.local import LocalStore, StoreInUse, StoreUnreadable
from ottla.coordination.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Set,
    StoreError,
    parent_of,
)

# A child that appends a numbered pair of nodes in one multi, for ever, and says each number once it is acknowledged.
WRITER = """
import asyncio, sys
from ottla.coordination.local import LocalStore
from ottla.coordination.store import Create, Set

async def main(path, start):
    store = await LocalStore.open(path)
    await store.create("/session", ephemeral=True)
    print("open", flush=True)
    while True:
        start += 1
        left, right = Create(f"/left/{start}", b"l" * 3000), Create(f"/right/{start}")
        await store.multi([left, Set("/last", b"%d" % start), right])
        print(start, flush=True)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def test_a_multi_is_wholly_there_or_not_at_all_after_kill_9(tmp_path):
    path = tmp_path / "coordination.db"

    async def prepare():
        store = await LocalStore.open(path)
        await store.multi([Create("/left"), Create("/right"), Create("/last", b"0")])
        await store.close()

    async def look():
        store = await LocalStore.open(path)
        tree = await store.subtree("/")
        await store.close()
        return tree

    asyncio.run(prepare())
    dice = random.Random(20)
    last = 0
    for _ in range(15):
        with subprocess.Popen([sys.executable, "-c", WRITER, path, str(last)], stdout=subprocess.PIPE) as child:
            assert child.stdout.readline() == b"open\n"
            sleep(dice.uniform(0, 0.03))  # the moment of death, not a wait for anything
            child.send_signal(signal.SIGKILL)
            acknowledged = max([last] + [int(line) for line in child.stdout if line.endswith(b"\n")])
        tree = asyncio.run(look())
        last = int(tree["/last"].data)
        assert last >= acknowledged
        for side in ("/left/", "/right/"):
            assert sorted(int(name[len(side) :]) for name in tree if name.startswith(side)) == list(range(1, last + 1))
        assert "/session" not in tree
    assert last > 0


def test_a_second_opener_is_refused_until_the_first_is_gone(tmp_path):
    async def story():
        first = await LocalStore.open(tmp_path / "db")
        with pytest.raises(StoreInUse, match="in use"):
            await LocalStore.open(tmp_path / "db")
        await first.create("/a")  # and the first is not disturbed
        await first.close()
        second = await LocalStore.open(tmp_path / "db")
        assert await second.exists("/a")
        await second.close()

    asyncio.run(story())


def test_a_file_that_is_no_database_is_refused_by_name(tmp_path):
    (tmp_path / "db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreUnreadable, match=str(tmp_path / "db")):
        asyncio.run(LocalStore.open(tmp_path / "db"))


def test_a_file_of_a_later_format_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreUnreadable, match="format 99"):
        asyncio.run(LocalStore.open(tmp_path / "db"))


def test_a_directory_that_does_not_exist_is_an_error_with_the_path(tmp_path):
    with pytest.raises(StoreError, match=str(tmp_path / "no" / "db")):
        asyncio.run(LocalStore.open(tmp_path / "no" / "db"))


def test_an_unwritable_disk_is_an_error_and_the_store_stays_as_it_was(tmp_path):
    async def story():
        store = await LocalStore.open(tmp_path / "db")
        await store.create("/a", b"before")
        pages = await store._call(lambda tree: tree.execute("PRAGMA page_count").fetchone()[0], ())
        await store._call(lambda tree: tree.execute(f"PRAGMA max_page_count = {pages}"), ())
        with pytest.raises(StoreError, match="full"):
            await store.multi([Set("/a", b"after"), Create("/b", bytes(1 << 20))])
        assert await store.get("/a") == Node(b"before", 0)
        await store.close()

    asyncio.run(story())


class Model:
    """The rules of the store over a plain dict."""

    def __init__(self) -> None:
        self.nodes = {"/": Node(b"", 0)}

    def multi(self, operations):
        before = dict(self.nodes)
        try:
            for operation in operations:
                self.apply(operation)
        except StoreError:
            self.nodes = before
            raise

    def apply(self, operation):
        path, nodes = operation.path, self.nodes
        if isinstance(operation, Create):
            parent = parent_of(path)
            if parent not in nodes:
                raise NoNode(parent)
            if nodes[parent].ephemeral:
                raise EphemeralParent(parent)
            if path in nodes:
                raise NodeExists(path)
            nodes[path] = Node(operation.data, 0, operation.ephemeral)
            return
        if path not in nodes:
            raise NoNode(path)
        node = nodes[path]
        if operation.version not in (-1, node.version):
            raise BadVersion(path, operation.version, node.version)
        if isinstance(operation, Set):
            nodes[path] = Node(operation.data, node.version + 1, node.ephemeral)
        elif isinstance(operation, Delete):
            if any(other != path and parent_of(other) == path for other in nodes if other != "/"):
                raise NotEmpty(path)
            del nodes[path]

    def below(self, path):
        return {
            other: node
            for other, node in self.nodes.items()
            if other == path or other.startswith(path.rstrip("/") + "/")
        }


NAMES = st.sampled_from(["a", "b", "a.b", "0", "~"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
VERSIONS = st.integers(-1, 2)
DATA = st.binary(max_size=3)
OPERATIONS = st.one_of(
    st.builds(Create, PATHS, DATA, st.booleans()),
    st.builds(Set, PATHS, DATA, VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)


def test_any_history_leaves_the_store_as_the_rules_say(tmp_path_factory):
    class Histories(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.path = tmp_path_factory.mktemp("history") / "db"
            self.model = Model()
            self.loop = asyncio.new_event_loop()
            self.store = self.run(LocalStore.open(self.path))

        def run(self, work):
            return self.loop.run_until_complete(work)

        @rule(operations=st.lists(OPERATIONS, max_size=4))
        def multi(self, operations):
            expected = got = None
            try:
                self.model.multi(operations)
            except StoreError as error:
                expected = error
            try:
                self.run(self.store.multi(operations))
            except StoreError as error:
                got = error
            assert (type(got), str(got)) == (type(expected), str(expected))

        @rule(path=st.one_of(st.just("/"), PATHS))
        def look(self, path):
            assert self.run(self.store.subtree(path)) == self.model.below(path)
            assert self.run(self.store.exists(path)) == (path in self.model.nodes)
            if path in self.model.nodes:
                names = sorted(p.rpartition("/")[2] for p in self.model.nodes if p != "/" and parent_of(p) == path)
                assert self.run(self.store.children(path)) == names
                assert self.run(self.store.get(path)) == self.model.nodes[path]

        @rule()
        def reopen(self):
            self.run(self.store.close())
            self.model.nodes = {path: node for path, node in self.model.nodes.items() if not node.ephemeral}
            self.store = self.run(LocalStore.open(self.path))

        def teardown(self):
            self.look("/")
            self.run(self.store.close())
            self.loop.close()

    run_state_machine_as_test(
        Histories, settings=settings(max_examples=40, stateful_step_count=30, deadline=None, database=None)
    )
