"""A topic that is copied exactly once by drivers that are killed, one after the other (exactly_once_program.py).

A driver to come is started while the one before it runs, since a session takes seconds to start.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from support.consoles import fresh
from support.pipeline_topics import Topics
from support.process_tree import in_session, send

PROGRAM = Path(__file__).with_name("exactly_once_program.py")
PATIENCE = 180  # seconds, for a driver that starts on a machine with much else to do
PADDING = "." * 200
BATCH = 900  # records at least


class Driver:
    """A process with a Spark session, told to run the query once."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(told)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.errors: list[str] = []
        self._errors = threading.Thread(target=lambda: self.errors.extend(self.process.stderr or ()), daemon=True)
        self._errors.start()

    def tell(self, what: str) -> None:
        assert self.process.stdin is not None
        self._hear("ready")
        print(what, file=self.process.stdin, flush=True)

    def end(self) -> None:
        """Waits for the query's end, which must be a good one."""
        self._hear("ended")
        self.process.wait(PATIENCE)

    def _hear(self, what: str) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == f"{what}\n", f"{line!r} for {what!r}; {self.said()}"

    def kill(self) -> None:
        """kill -9 of the driver and of all that it has started, at the same moment."""
        send(in_session(self.process.pid))
        self.process.wait()

    def said(self) -> str:
        self._errors.join(5)
        return f"exit status {self.process.poll()}\n" + "".join(self.errors)[-5000:]


class Copying:
    """Records in, and a query that copies them; what else a query may do with them, subclasses say."""

    work = "copy"
    more: Mapping[str, str] = {}  # settings of Spark

    def __init__(
        self,
        topics: Topics,
        directory: Path,
        *,
        master: str = "local[2]",
        settings: Mapping[str, str] | None = None,
        partitions: int = 3,
    ) -> None:
        self.topics = topics
        self.partitions = partitions
        self.gates = directory / "gates"
        self.gates.mkdir()
        self.checkpoint = directory / "checkpoint"
        self.query = fresh("copying")
        self.input, self.output = topics.make("in", partitions), topics.make("out", 2)
        self.fed = 0
        self._told = {
            "master": master,
            "settings": {**self.more, **(settings or {})},
            "work": self.work,
            "bootstrap": topics.bootstrap,
            "input": self.input,
            "output": self.output,
            "query": self.query,
            "checkpoint": str(self.checkpoint),
            "gates": str(self.gates),
            "batch": BATCH,
        }
        self._spare: Driver | None = Driver(self._told)
        self._running: list[Driver] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for driver in [*self._running, *([self._spare] if self._spare else [])]:
            driver.kill()

    @property
    def tasks(self) -> set[int]:
        """Those that write when records come."""
        return set(range(self.partitions))

    # -- what goes in and comes out ----------------------------------------------------------------------------------

    def feed(self, count: int = BATCH) -> None:
        """As many records more, in all partitions. A batch begins when there are BATCH of them, and takes all."""
        for partition in range(self.partitions):
            share = range(self.fed + partition, self.fed + count, self.partitions)
            self.topics.fill(self.input, (f"{number:08}{PADDING}" for number in share), partition=partition)
        self.fed += count

    def faults(self) -> list[str]:
        """What is wrong with what has come out."""
        seen = Counter(int((record.value or b"")[:8]) for record in self.topics.read(self.output))
        wrong = {
            "never fed": sum(number >= self.fed for number in seen),
            "missing": sum(number not in seen for number in range(self.fed)),
            "there once too often": seen.total() - len(seen),
        }
        return [f"{count} records are {what}" for what, count in wrong.items() if count]

    def is_complete(self) -> bool:
        """Whether there is as much in the output as must come of what was fed."""
        return self.committed() >= self.fed and len(self.topics.read(self.output)) >= self.fed

    def has_uncommitted(self) -> bool:
        """Whether there is more in the output than its readers may see."""
        return self._ends(committed=False) > self.committed()

    def committed(self) -> int:
        """How many records readers may see, and ends of transactions."""
        return self._ends(committed=True)

    def _ends(self, *, committed: bool) -> int:
        places = [TopicPartition(self.output, number) for number in range(2)]
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        told = self.topics.admin.list_offsets({place: OffsetSpec.latest() for place in places}, isolation_level=level)
        return sum(future.result(30).offset for future in told.values())

    # -- how far it is -----------------------------------------------------------------------------------------------

    def newest(self, log: str) -> int:
        """The newest batch that is begun (`offsets`) or done (`commits`); -1: none."""
        directory = self.checkpoint / log
        names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def markers(self) -> dict[int, int]:
        """The last batch that each task has committed."""
        return {task: int(metadata.split()[1]) for task, (_, metadata) in self.topics.markers(self.query).items()}

    def written(self) -> set[int]:
        """The tasks that have committed the batch that is being run."""
        batch = self.newest("offsets")
        return {task for task, last in self.markers().items() if last == batch}

    def is_idle(self) -> bool:
        """Whether all batches that were begun are done."""
        return self.newest("commits") == self.newest("offsets")

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            for driver in self._running:
                assert driver.process.poll() is None, driver.said()
            assert time.monotonic() < deadline, f"it never came to be; {self.faults()[:5]}"
            time.sleep(0.02)

    # -- drivers -----------------------------------------------------------------------------------------------------

    def start(self, *, spare: bool = True) -> Driver:
        driver = self._spare or Driver(self._told)
        self._spare = None
        driver.tell("run")
        self._running = [driver]
        if spare:
            self._spare = Driver(self._told)
        return driver

    def finish(self) -> None:
        """Do what is left, with nobody killed."""
        driver = self._spare or Driver(self._told)
        self._spare = None
        self._running = [driver]
        driver.tell("finish")
        driver.end()
        self._running = []

    def kill(self, driver: Driver) -> None:
        driver.kill()
        self._running = []

    def hold(self, *tasks: int) -> None:
        for task in tasks:
            (self.gates / f"hold-{task}").touch()

    def until_held(self, count: int) -> None:
        """Until as many tasks have stopped."""
        self.until(lambda: len(list(self.gates.glob("held-*"))) == count)

    def release(self) -> None:
        for path in self.gates.iterdir():
            path.unlink()
