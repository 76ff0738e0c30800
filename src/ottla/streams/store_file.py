"""The rows of one store in a file of their own (SQLite), with the offsets up to which they are those of a topic.

Rules:
- One thread writes; any number read at the same time. The journal is a write-ahead log, so readers see whole batches
  and nobody waits for anybody.
- The rows of a batch and the offsets behind it are one transaction. It is not forced to the disk (synchronous=NORMAL):
  a power cut may lose the newest batches, with their offsets, and they are read from the topic again.
- The topic is the truth. A file of another layout, topic, topic id or kind of key, or a damaged one, is made anew.
- One process has a store: NAME.lock beside it is held.

Layout: NAME.sqlite, tables
    about    word, what       version, topic, topic id, kind; open: in use, or not closed in order and to be checked
    offsets  partition, next  the first offset that is not in here yet
    rows     key, start, end, value, timestamp   bytes as in the topic, times in ms; start = end = 0 without windows
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ottla.pipelines.errors import PipelineError

VERSION = "1"
PAGES_BEFORE_CHECKPOINT = 8000  # 32 MB of journal: three times faster than SQLite's 1000 while a big topic is read
CACHE = -32_000  # KB
READ_AT_ONCE = 256  # rows
DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}

TABLES = """
CREATE TABLE about (word TEXT PRIMARY KEY, what TEXT NOT NULL);
CREATE TABLE offsets (partition INTEGER PRIMARY KEY, next INTEGER NOT NULL);
CREATE TABLE rows (key BLOB NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, value BLOB NOT NULL,
                   timestamp INTEGER NOT NULL, PRIMARY KEY (key, start, end));
CREATE INDEX rows_by_end ON rows (end) WHERE end <> 0;
"""
PUT = (
    "INSERT INTO rows VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET value = excluded.value, timestamp = excluded.timestamp"
)
DELETE = "DELETE FROM rows WHERE key = ? AND start = ? AND end = ?"
REACHED = "INSERT INTO offsets VALUES (?, ?) ON CONFLICT DO UPDATE SET next = excluded.next"
GET = "SELECT value FROM rows WHERE key = ? AND start = 0 AND end = 0"


class StoreInUse(PipelineError):
    pass


class Damaged(Exception):
    """The file cannot be read any more; it has to be made anew from the topic."""


class Place(NamedTuple):
    """Which row: a key's bytes, and the window in ms."""

    key: bytes
    start: int = 0
    end: int = 0


class Row(NamedTuple):
    key: bytes
    start: int
    end: int
    value: bytes
    timestamp: int


class StoreFile:
    def __init__(self, directory: Path, name: str, *, topic: str, kind: str) -> None:
        self.path = directory / f"{name}.sqlite"
        self._about = {"version": VERSION, "topic": topic, "kind": kind}
        self._readers: deque[sqlite3.Connection] = deque()
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(directory / f"{name}.lock")
        try:
            self._writer = self._open()
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self) -> sqlite3.Connection:
        try:
            return self._open_as_it_is()
        except (Damaged, sqlite3.DatabaseError):  # not one of ours, or broken: the topic has all of it
            for suffix in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            return self._open_as_it_is()

    def _open_as_it_is(self) -> sqlite3.Connection:
        writer = _connect(self.path)
        try:
            writer.execute("PRAGMA journal_mode = WAL")
            writer.execute("PRAGMA synchronous = NORMAL")
            writer.execute(f"PRAGMA wal_autocheckpoint = {PAGES_BEFORE_CHECKPOINT}")
            writer.execute(f"PRAGMA cache_size = {CACHE}")
            if not writer.execute("SELECT 1 FROM sqlite_master").fetchone():
                with _transaction(writer):
                    for statement in TABLES.split(";"):
                        writer.execute(statement)
                    writer.executemany("INSERT INTO about VALUES (?, ?)", self._about.items())
            found = dict(writer.execute("SELECT word, what FROM about"))
            if any(found.get(word) != what for word, what in self._about.items()):
                raise Damaged(f"{self.path} is of something else")
            if "open" in found and writer.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise Damaged(str(self.path))
            writer.execute("INSERT OR REPLACE INTO about VALUES ('open', '')")
        except BaseException:
            writer.close()
            raise
        return writer

    # the writer's side: one thread

    def begin(self, topic_id: str) -> dict[int, int]:
        """The offsets to go on from, by partition. Of a topic with another id nothing is kept."""
        with _damage_told():
            found = self._writer.execute("SELECT what FROM about WHERE word = 'topic id'").fetchone()
            if found != (topic_id,):
                with _transaction(self._writer):
                    self._clear()
                    self._writer.execute("INSERT OR REPLACE INTO about VALUES ('topic id', ?)", (topic_id,))
            return dict(self._writer.execute("SELECT partition, next FROM offsets"))

    def empty(self) -> None:
        """Forget all rows and offsets, but not whose they were."""
        with _damage_told(), _transaction(self._writer):
            self._clear()

    def _clear(self) -> None:
        self._writer.execute("DELETE FROM rows")
        self._writer.execute("DELETE FROM offsets")

    def remake(self) -> None:
        """Put a new, empty file in the place of a damaged one. Those who still read the old one finish."""
        self._writer.close()
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        idle, self._readers = self._readers, deque()
        while idle:
            idle.pop().close()
        self._writer = self._open()

    def apply(
        self,
        rows: Mapping[Place, tuple[bytes | None, int]],
        offsets: Mapping[int, int],
        expired: int | None = None,
    ) -> None:
        """Put rows (value, timestamp; None deletes) and their offsets; drop windows that ended before `expired`."""
        puts, deletes = [], []
        for place, (value, timestamp) in rows.items():
            if value is None:
                deletes.append(place)
            else:
                puts.append((*place, value, timestamp))
        with _damage_told(), _transaction(self._writer):
            self._writer.executemany(DELETE, deletes)
            self._writer.executemany(PUT, puts)
            if expired is not None:
                self._writer.execute("DELETE FROM rows WHERE end < ? AND end <> 0", (expired,))
            self._writer.executemany(REACHED, offsets.items())

    def last_end(self) -> int | None:
        """The end of the newest window."""
        with _damage_told():
            end: int | None = self._writer.execute("SELECT max(end) FROM rows WHERE end <> 0").fetchone()[0]
            return end

    def close(self) -> None:
        """For the writer; readers that are at work close their own connections."""
        idle, self._readers = self._readers, deque(maxlen=0)
        while idle:
            idle.pop().close()
        with suppress(sqlite3.Error):
            self._writer.execute("DELETE FROM about WHERE word = 'open'")
        self._writer.close()
        os.close(self._lock)

    # the readers' side: any thread

    def get(self, key: bytes) -> bytes | None:
        with self._reader() as reader:
            found = reader.execute(GET, (key,)).fetchone()
            return found[0] if found else None

    def count(self) -> int:
        with self._reader() as reader:
            count: int = reader.execute("SELECT count(*) FROM rows").fetchone()[0]
            return count

    def select(self, where: Mapping[str, object], *, reverse: bool = False, limit: int | None = None) -> Iterator[Row]:
        """Rows in the order of their keys' bytes, then windows. `where`: conditions as `key >= ?` with their values."""
        way = "DESC" if reverse else "ASC"
        query = (
            f"SELECT key, start, end, value, timestamp FROM rows WHERE {' AND '.join(where) or '1'} "
            f"ORDER BY key {way}, start {way}, end {way} LIMIT ?"
        )
        with self._reader() as reader, closing(reader.cursor()) as cursor:
            cursor.execute(query, (*where.values(), -1 if limit is None else limit))
            while found := cursor.fetchmany(READ_AT_ONCE):
                yield from map(Row._make, found)

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        """A connection that nobody else uses meanwhile."""
        readers = self._readers
        try:
            reader = readers.pop()
        except IndexError:
            with _damage_told():
                reader = _connect(self.path, reads_only=True)
        try:
            with _damage_told():
                yield reader
        except Damaged:
            reader.close()
            raise
        except BaseException:
            self._give_back(readers, reader)
            raise
        self._give_back(readers, reader)

    def _give_back(self, readers: deque[sqlite3.Connection], reader: sqlite3.Connection) -> None:
        if readers is self._readers and readers.maxlen is None:
            readers.append(reader)
        else:  # of a file that has been put away
            reader.close()


def _connect(path: Path, *, reads_only: bool = False) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={'ro' if reads_only else 'rwc'}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=60)


def _lock(path: Path) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        store = path.with_suffix("")
        raise StoreInUse(f"{store} is in use by another run of the application; stop it first") from None
    return lock


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _damage_told() -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGE:
            raise Damaged(str(error)) from error
        raise
