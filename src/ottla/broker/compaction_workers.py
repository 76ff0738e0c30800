"""The processes that compact logs, seen from the broker (storage/compaction/worker.py is the other side).

A worker is started when there is something to do and none is free, and ended when it has had nothing to do for a while.
To abort a job, its worker is killed: all it has is files that end in `.cleaned`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from ottla.storage.compaction.job import Group, Job, Totals

IDLE_SECONDS = 60.0
LINE_LIMIT = 1 << 20


class JobFailed(Exception):
    """A job came to nothing. `kind` is one of the worker's, or "aborted" by us, or the worker "died" by itself."""

    def __init__(self, kind: str, why: str, errno: int | None = None) -> None:
        super().__init__(why)
        self.kind = kind
        self.errno = errno  # of "disk"


class Worker:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._killed = False

    @classmethod
    async def start(cls) -> Worker:
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "ottla.storage.compaction.worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LINE_LIMIT,
                start_new_session=True,  # the terminal's signals are the broker's
            )
        )

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None and not self._killed

    async def clean(self, job: Job, report: Callable[[Group], None]) -> Totals:
        """Have a job done; `report` is told of each group that is ready. JobFailed when nothing comes of it."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        if self._killed:  # since it was taken: its pipes may be closed already
            raise JobFailed("aborted", f"worker {process.pid} was killed before it began")
        try:
            process.stdin.write(json.dumps(asdict(job)).encode() + b"\n")
            await process.stdin.drain()
        except ConnectionError:
            pass  # it died; the end of its output says so
        while line := await process.stdout.readline():
            message = json.loads(line)
            if "group" in message:
                report(Group(**message["group"]))
            elif "done" in message:
                return Totals(**message["done"])
            else:
                raise JobFailed(message["failed"], message["why"], message.get("errno"))
        kind = "aborted" if self._killed else "died"
        raise JobFailed(kind, f"worker {process.pid} ended with status {await process.wait()}")

    def kill(self) -> None:
        if self.is_alive:
            self._killed = True
            self._process.kill()

    async def end(self) -> None:
        """Let it end by itself, as it does at the end of its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


class Workers:
    """Those that are free, and those that are not."""

    def __init__(self) -> None:
        self._free: list[tuple[Worker, asyncio.TimerHandle]] = []
        self._all: set[Worker] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._stopped = False

    async def take(self) -> Worker:
        """One that is free, or a new one."""
        while self._free:
            worker, timer = self._free.pop()
            timer.cancel()
            if worker.is_alive:
                return worker
            self._all.discard(worker)
        worker = await Worker.start()
        self._all.add(worker)
        if self._stopped:
            worker.kill()
        return worker

    def give_back(self, worker: Worker) -> None:
        if not worker.is_alive:
            self._all.discard(worker)
            return
        timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._give_up, worker)
        self._free.append((worker, timer))

    def _give_up(self, worker: Worker) -> None:
        self._free = [one for one in self._free if one[0] is not worker]
        self._all.discard(worker)
        task = asyncio.get_running_loop().create_task(worker.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def __len__(self) -> int:
        return len(self._all)

    async def stop(self) -> None:
        """End all of them at once, also those that are just being started."""
        self._stopped = True
        for _, timer in self._free:
            timer.cancel()
        for worker in self._all:
            worker.kill()
        await asyncio.gather(*(worker.end() for worker in self._all), *self._ending)
        self._all.clear()
        self._free.clear()
