"""The coordination store of a single node: a SQLite file in the data directory.

    node(parent text, name text, data blob, version integer, ephemeral integer), primary key (parent, name)

The path of a node is `parent || '/' || name`; the root is the row with an empty parent and an empty name. All nodes
below `/a` have a parent that is `/a` or lies between `/a/` and `/a0` ('0' follows '/'), so children and subtrees are
ranges of the one index.

- One thread owns the connection. Calls are queued to it in order; it posts each outcome back to the loop, where watches
  are called first and the caller's future is completed after. So watches see changes in commit order.
- Write-ahead log, `synchronous=FULL`: a call that returned is on the disk, a `multi` is one transaction. After a crash
  SQLite drops the unfinished tail of the log by itself.
- `locking_mode=EXCLUSIVE`: a second process that opens the same file is refused (`StoreInUse`). The file lock dies with
  its process, so at open every ephemeral node is a leftover of a session that is gone, and is removed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

from ottla.coordination.store import (
    ANY_VERSION,
    BadPath,
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    Event,
    EventKind,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
    StoreClosed,
    StoreError,
    check_path,
    parent_of,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

FILE_NAME = "coordination.db"
SCHEMA_VERSION = 1


class StoreInUse(StoreError):
    """Another process has the store open."""


class StoreUnreadable(StoreError):
    """The file is not a store that this version can read."""


class LocalWatch:
    __slots__ = ("_callback", "_registry", "path")

    def __init__(self, path: str, callback: Callable[[Event], None], registry: dict[str, list[LocalWatch]]) -> None:
        self.path = path
        self._callback: Callable[[Event], None] | None = callback
        self._registry = registry
        registry.setdefault(path, []).append(self)

    def cancel(self) -> None:
        if self._callback is None:
            return
        self._callback = None
        watches = self._registry[self.path]
        watches.remove(self)
        if not watches:
            del self._registry[self.path]

    def notify(self, event: Event) -> None:
        if self._callback is None:  # cancelled by a watch called just before
            return
        try:
            self._callback(event)
        except Exception:
            log.exception("a watch of %s failed on %s", self.path, event)


class LocalStore:
    """`Store` on SQLite. Made by `await LocalStore.open(path)`, used on one event loop."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._loop = asyncio.get_running_loop()
        self._watches: dict[str, list[LocalWatch]] = {}
        self._calls: SimpleQueue[tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="coordination", daemon=True)
        self._closed = False
        self._ended: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    async def open(cls, path: str | os.PathLike[str]) -> LocalStore:
        """Open the store, creating the file if need be. Raises StoreInUse, StoreUnreadable."""
        store = cls(os.fspath(path))
        store._thread.start()
        try:
            await store._call(_Tree.prepare, ())
        except BaseException:
            await store.close()
            raise
        return store

    # -- the interface

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> None:
        await self.multi((Create(path, data, ephemeral),))

    async def get(self, path: str) -> Node:
        check_path(path)
        return await self._call(_Tree.get, (path,))

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        check_path(path)
        operation = Set(path, data, version)
        return await self._call(_Tree.write_one, (operation,), (operation,))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi((Delete(path, version),))

    async def exists(self, path: str) -> bool:
        check_path(path)
        return await self._call(_Tree.exists, (path,))

    async def children(self, path: str) -> list[str]:
        check_path(path)
        return await self._call(_Tree.children, (path,))

    async def subtree(self, path: str) -> dict[str, Node]:
        check_path(path)
        return await self._call(_Tree.subtree, (path,))

    async def multi(self, operations: Sequence[Operation]) -> None:
        for operation in operations:
            check_path(operation.path)
            if operation.path == "/" and isinstance(operation, Create | Delete):
                raise BadPath("/", "the root is always there")
        await self._call(_Tree.write, (operations,), operations)

    def watch(self, path: str, callback: Callable[[Event], None]) -> LocalWatch:
        check_path(path)
        return LocalWatch(path, callback, self._watches)

    async def close(self) -> None:
        """Remove the session's ephemeral nodes and close the file. Calls made before are finished."""
        if not self._closed:
            self._closed = True
            self._calls.put(None)
        await asyncio.shield(self._ended)

    # -- between the loop and the thread

    async def _call(
        self, function: Callable[..., T], arguments: tuple[Any, ...], changes: Sequence[Operation] = ()
    ) -> T:
        if self._closed:
            raise StoreClosed(f"{self.path} is closed")
        outcome: asyncio.Future[T] = self._loop.create_future()
        self._calls.put((outcome, function, (*arguments, changes)))
        return await outcome

    def _serve(self) -> None:
        tree = _Tree(self.path)
        while (call := self._calls.get()) is not None:
            outcome, function, (*arguments, changes) = call
            result: Any = None
            failure: Exception | None = None
            try:
                result = function(tree, *arguments)
            except sqlite3.Error as error:
                failure = StoreError(f"{self.path}: {error}")
            except Exception as error:
                failure = error
            self._post(self._finish, outcome, result, failure, changes)
        tree.close()
        self._post(self._ended.set_result, None)

    def _post(self, callback: Callable[..., object], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the loop was closed under us: nobody is left to be told
            log.debug("%s: the event loop is gone", self.path)

    def _finish(
        self, outcome: asyncio.Future[Any], result: Any, failure: Exception | None, changes: Sequence[Operation]
    ) -> None:
        if failure is None and changes and self._watches:
            for event in events_of(changes):
                for watch in tuple(self._watches.get(event.path, ())):
                    watch.notify(event)
        if outcome.cancelled():
            return
        if failure is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(failure)


def events_of(operations: Sequence[Operation]) -> list[Event]:
    """What watches hear of a transaction. A change of children is told once per parent, after the nodes' own events."""
    events = []
    parents: dict[str, None] = {}
    for operation in operations:
        path = operation.path
        match operation:
            case Create():
                events.append(Event(EventKind.CREATED, path))
                parents[parent_of(path)] = None
            case Delete():
                events.append(Event(EventKind.DELETED, path))
                parents[parent_of(path)] = None
            case Set():
                events.append(Event(EventKind.CHANGED, path))
    return events + [Event(EventKind.CHILDREN, parent) for parent in parents]


class _Tree:
    """The tree in the database. Lives in the store's thread."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.db: sqlite3.Connection | None = None

    def prepare(self) -> None:
        db = sqlite3.connect(self.path, isolation_level=None, timeout=0, cached_statements=32)
        try:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            (found,) = db.execute("PRAGMA user_version").fetchone()
            if found not in (0, SCHEMA_VERSION):
                raise StoreUnreadable(f"{self.path} has format {found}; this version reads format {SCHEMA_VERSION}")
            db.execute("BEGIN IMMEDIATE")
            if found == 0:
                db.execute(
                    "CREATE TABLE node (parent TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL,"
                    " version INTEGER NOT NULL, ephemeral INTEGER NOT NULL, PRIMARY KEY (parent, name))"
                )
                db.execute("CREATE INDEX ephemeral_node ON node (ephemeral) WHERE ephemeral")
                db.execute("INSERT INTO node VALUES ('', '', x'', 0, 0)")
                db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            db.execute("DELETE FROM node WHERE ephemeral")
            db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            db.close()
            if "locked" in str(error):
                raise StoreInUse(f"{self.path} is in use by another process") from None
            raise
        except sqlite3.DatabaseError as error:
            db.close()
            raise StoreUnreadable(f"{self.path}: {error}") from None
        except BaseException:
            db.close()
            raise
        self.db = db

    def close(self) -> None:
        if self.db is None:
            return
        try:
            self.db.execute("DELETE FROM node WHERE ephemeral")
        except sqlite3.Error as error:  # they are removed at the next open too
            log.warning("%s: ephemeral nodes not removed: %s", self.path, error)
        self.db.close()
        self.db = None

    def execute(self, statement: str, parameters: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        if self.db is None:
            raise StoreClosed(f"{self.path} is not open")
        return self.db.execute(statement, parameters)

    def find(self, path: str) -> Node | None:
        parent, _, name = path.rpartition("/")
        row = self.execute(
            "SELECT data, version, ephemeral FROM node WHERE parent = ? AND name = ?", (parent, name)
        ).fetchone()
        return Node(row[0], row[1], bool(row[2])) if row else None

    def get(self, path: str) -> Node:
        node = self.find(path)
        if node is None:
            raise NoNode(path)
        return node

    def exists(self, path: str) -> bool:
        return self.find(path) is not None

    def children(self, path: str) -> list[str]:
        self.get(path)
        rows = self.execute("SELECT name FROM node WHERE parent = ? AND name != '' ORDER BY name", (path.rstrip("/"),))
        return [name for (name,) in rows]

    def subtree(self, path: str) -> dict[str, Node]:
        top = self.find(path)
        if top is None:
            return {}
        above = path.rstrip("/")
        rows = self.execute(
            "SELECT parent || '/' || name, data, version, ephemeral FROM node"
            " WHERE parent = ? OR (parent > ? AND parent < ?) ORDER BY parent, name",
            (above, above + "/", above + "0"),
        )
        found = {path: top}
        for child, data, version, ephemeral in rows:
            found[child] = Node(data, version, bool(ephemeral))
        return found

    def write(self, operations: Sequence[Operation]) -> None:
        self.execute("BEGIN IMMEDIATE")
        try:
            fresh: set[str] = set()  # persistent nodes of this transaction: surely there for their children
            for operation in operations:
                self._apply(operation, fresh)
            self.execute("COMMIT")
        except BaseException:
            if self.db is not None and self.db.in_transaction:  # SQLite may have rolled back by itself (disk full)
                self.execute("ROLLBACK")
            raise

    def write_one(self, operation: Set) -> int:
        self.write((operation,))
        return self.get(operation.path).version

    def _apply(self, operation: Operation, fresh: set[str]) -> None:
        path = operation.path
        match operation:
            case Create(data=data, ephemeral=ephemeral):
                parent, _, name = path.rpartition("/")
                if parent not in fresh:
                    if self.get(parent or "/").ephemeral:
                        raise EphemeralParent(parent)
                    fresh.add(parent)
                try:
                    self.execute("INSERT INTO node VALUES (?, ?, ?, 0, ?)", (parent, name, data, ephemeral))
                except sqlite3.IntegrityError:
                    raise NodeExists(path) from None
                if not ephemeral:
                    fresh.add(path)
            case Set(data=data):
                self._check(operation)
                parent, _, name = path.rpartition("/")
                self.execute(
                    "UPDATE node SET data = ?, version = version + 1 WHERE parent = ? AND name = ?",
                    (data, parent, name),
                )
            case Delete():
                self._check(operation)
                if self.execute("SELECT 1 FROM node WHERE parent = ? LIMIT 1", (path,)).fetchone():
                    raise NotEmpty(path)
                parent, _, name = path.rpartition("/")
                self.execute("DELETE FROM node WHERE parent = ? AND name = ?", (parent, name))
                fresh.discard(path)
            case Check():
                self._check(operation)

    def _check(self, operation: Set | Delete | Check) -> None:
        found = self.get(operation.path).version
        if operation.version not in (ANY_VERSION, found):
            raise BadVersion(operation.path, operation.version, found)
