"""The interface of the coordination store: the small part of ZooKeeper that Kafka uses.

A tree of nodes named by absolute paths. Each node holds bytes and a version that starts at 0 and rises by one with
every `set`. What every form of the store promises (tests/coordination/test_store.py runs on each of them):

- A parent must exist before its child (`NoNode`), a node with children is not deleted (`NotEmpty`). The root is always
  there and is never deleted.
- A write with a version happens only if the node still has that version (`BadVersion`); -1 means any.
- `multi` does all of its operations or none, each seeing the effect of those before it; it raises the error of the
  first that fails. A write that returned survives the death of the process.
- Ephemeral nodes belong to the session that made them (one `Store` object is one session) and go when it ends, by
  `close` or by death. They have no children.
- A watch is persistent (as ZooKeeper's `addWatch` since 3.6): one call per change of the node itself (created, data
  changed, deleted) and of the set of its children, until cancelled. It says what happened, not the new value: read it.
  Events come on the event loop, in the order of the changes, after the change is durable and before the call that made
  it returns. Children that one `multi` adds or removes are reported once.
- Calls of one session take effect in the order in which they were made. A call whose task is cancelled may still
  happen.
- `subtree` reads many nodes at once; it is a snapshot only in the local form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

ANY_VERSION = -1


class StoreError(Exception):
    """The store refused or could not do what was asked."""


class NodeError(StoreError):
    """An operation failed because of the node at `path`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class NoNode(NodeError):
    def __init__(self, path: str) -> None:
        super().__init__(path, f"{path} does not exist")


class NodeExists(NodeError):
    def __init__(self, path: str) -> None:
        super().__init__(path, f"{path} exists already")


class NotEmpty(NodeError):
    def __init__(self, path: str) -> None:
        super().__init__(path, f"{path} has children")


class EphemeralParent(NodeError):
    def __init__(self, path: str) -> None:
        super().__init__(path, f"{path} is ephemeral and cannot have children")


class BadVersion(NodeError):
    def __init__(self, path: str, expected: int, actual: int) -> None:
        super().__init__(path, f"{path} has version {actual}, not {expected}")
        self.expected = expected
        self.actual = actual


class BadPath(StoreError, ValueError):
    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path!r} is not the path of a node: {why}")


class StoreClosed(StoreError):
    """The session has ended."""


class Node(NamedTuple):
    data: bytes
    version: int
    ephemeral: bool = False


class Create(NamedTuple):
    path: str
    data: bytes = b""
    ephemeral: bool = False


class Set(NamedTuple):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Changes nothing; fails if the node is absent or has another version."""

    path: str
    version: int = ANY_VERSION


Operation = Create | Set | Delete | Check


class EventKind(Enum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"


class Event(NamedTuple):
    kind: EventKind
    path: str


class Watch(Protocol):
    def cancel(self) -> None:
        """No call comes after this."""


class Store(Protocol):
    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> None: ...

    async def get(self, path: str) -> Node: ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Returns the new version."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    async def exists(self, path: str) -> bool: ...

    async def children(self, path: str) -> list[str]:
        """The names (not paths) of the children, sorted."""

    async def subtree(self, path: str) -> dict[str, Node]:
        """The node and all below it by path, parents before children; empty if the node does not exist."""

    async def multi(self, operations: Sequence[Operation]) -> None: ...

    def watch(self, path: str, callback: Callable[[Event], None]) -> Watch: ...

    async def close(self) -> None: ...


def check_path(path: str) -> None:
    """Raise BadPath unless `path` names a node as ZooKeeper would have it."""
    if path == "/":
        return
    if not path.startswith("/"):
        raise BadPath(path, "it does not start with '/'")
    if "\0" in path:
        raise BadPath(path, "it holds a NUL")
    for name in path[1:].split("/"):
        if name in ("", ".", ".."):
            raise BadPath(path, f"{name!r} is not a name")


def parent_of(path: str) -> str:
    """The path of the parent; the root's children have the parent '/'."""
    return path[: path.rindex("/")] or "/"


async def ensure(store: Store, path: str) -> None:
    """Create the node and what is missing above it, all persistent and empty; nodes that exist are left as they are."""
    check_path(path)
    names = path.split("/")
    for depth in range(2, len(names) + 1):
        try:
            await store.create("/".join(names[:depth]))
        except NodeExists:
            pass
