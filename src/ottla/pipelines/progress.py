"""What the world sees of running queries: a consumer group's offsets, metrics for Prometheus, a line on the terminal.

One thread looks at each query's newest batch four times a second and reads those that it has not seen, as JSON: some
0.2 ms when nothing is new, 0.5 ms a batch. (A StreamingQueryListener in Python asks the JVM for each figure by itself,
96 ms a batch with state in it.) It takes from queries only what they tell, and nothing that it does can fail one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from prometheus_client import CollectorRegistry
from pyspark.sql.streaming.query import StreamingQuery

from ottla.pipelines import poison
from ottla.pipelines.batches import Batch, read
from ottla.pipelines.group_offsets import GroupOffsets
from ottla.pipelines.metrics import PipelineMetrics
from ottla.pipelines.progress_line import Figures, ProgressLine

LOOK = 0.25  # seconds
ASK = 1.0  # seconds between commits, and between questions for the lag

LOG = logging.getLogger(__name__)


@dataclass
class _Followed:
    name: str
    query: Any  # Spark's own
    seen: str | None = None  # when the newest batch began that has been looked at
    active: bool = True


class Progress:
    """`console`: show a line. `registry`: where metrics go, one of its own if None is given. `rejected`: how many
    records each step has left out since the session's start. `client`: more settings for the Kafka client, as those of
    security."""

    def __init__(
        self,
        app_id: str,
        bootstrap: str,
        *,
        console: bool,
        registry: CollectorRegistry | None = None,
        rejected: Callable[[], Mapping[str, int]] = poison.rejected,
        client: Mapping[str, Any] | None = None,
    ) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self._group = GroupOffsets(app_id, bootstrap, client)
        self._metrics = PipelineMetrics(app_id, self.registry)
        self._figures = Figures(app_id)
        self._line = ProgressLine(self._figures) if console else None
        self._followed: dict[str, _Followed] = {}
        self._rejected = rejected
        self._before: dict[str, int] | None = None  # what was rejected when it was looked at last
        self._lock = threading.Lock()
        self._new, self._asked = False, 0.0  # batches since the last commit; when that was
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"progress of {app_id}", daemon=True)
        self._thread.start()

    def follow(self, query: StreamingQuery, name: str) -> None:
        """Tell of this query from now on. A name that was there before is a query that has been started again."""
        with self._lock:
            again = name in self._followed
            if again:
                self._look(self._followed[name])
            if self._before is None:
                self._before = dict(self._rejected())  # by others, before this one
            self._followed[name] = _Followed(name, query._jsq)
            self._group.expect(name)
            self._metrics.started(name, again=again)

    @property
    def lag(self) -> int | None:
        """How many records of the sources are not processed yet; None: not known."""
        return self._figures.lag

    def stop(self) -> None:
        """Look once more, commit once more, end the line. For after the queries' end, and before the session's."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(LOOK):
            self._turn()
        self._turn(last=True)
        if self._line is not None:
            self._line.close()

    def _turn(self, *, last: bool = False) -> None:
        try:
            with self._lock:
                for followed in self._followed.values():
                    self._look(followed)
            if last or monotonic() - self._asked >= ASK:
                self._asked = monotonic()
                if self._new or last:
                    self._new = not self._group.commit(last=last)
                if not (last and self._new):  # it is away
                    lags = self._group.lag()
                    self._figures.lag = None if lags is None else sum(lags.values())
                    self._metrics.lags(lags or {})
                self._count_rejected()
            if self._line is not None:
                self._line.show()
        except Exception:  # of whatever kind: the thread goes on, and no query fails of what is only told of it
            LOG.exception("progress cannot be told at the moment")

    def _count_rejected(self) -> None:
        if self._before is None:
            return
        now = dict(self._rejected())
        more = {step: count - self._before.get(step, 0) for step, count in now.items()}
        self._before = now
        self._metrics.rejected(more)
        self._figures.rejected += sum(more.values())

    def _look(self, followed: _Followed) -> None:
        """Read the batches that are new."""
        if not followed.active:
            return
        try:
            active = followed.query.isActive()  # asked first, so that the last batch is not missed
            for batch in _unseen(followed):
                self._new = True
                self._group.done(followed.name, batch)
                if not batch.idle:
                    self._metrics.done(followed.name, batch)
                    self._figures.done(followed.name, batch)
        except Exception as error:  # the session is gone; py4j and Spark have many ways to say so
            LOG.debug("query %s tells nothing any more: %s", followed.name, error)
            active = False
        if not active:
            followed.active = False
            self._group.done(followed.name, None)
            self._metrics.ended(followed.name)


def _unseen(followed: _Followed) -> list[Batch]:
    """The batches that are done and have not been read yet, oldest first. Spark keeps the last hundred."""
    newest = followed.query.lastProgress()
    if newest is None or newest.timestamp() == followed.seen:
        return []
    recent, before = followed.query.recentProgress(), followed.seen
    found: list[Batch] = []
    for index in reversed(range(len(recent))):
        told = recent[index]
        began = told.timestamp()
        if began == before:
            break
        if not found:
            followed.seen = began
        found.append(read(told.json()))
    return found[::-1]
