"""The JVM of this process's Spark session: started, its stderr passed on, ended, its files removed.

It is PySpark's gateway, with two things of our own. Its stderr comes through us, so that what every start of Spark says
is left out, and what it says when it does not start becomes the error. And its end is waited for, so that nothing of it
is left behind. The JVM goes by itself when our process does, however that ends: it reads our end of its stdin.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JVMView
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.scratch import Scratch

CHATTER = (b"WARNING: Using incubator modules: ",)  # beginnings of lines that tell nobody anything
REMEMBERED = 20  # lines of a start
PATIENCE = 10.0  # seconds that it has to end in


class Stderr:
    """Passes on what a JVM writes, from `open` on, and holds back what comes before. `end` is the JVM's end of it."""

    def __init__(self) -> None:
        ours, self.end = os.pipe()
        self._held: deque[bytes] | None = deque(maxlen=REMEMBERED)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._pass_on, args=(ours,), name="stderr of the JVM", daemon=True)
        self._thread.start()

    def open(self) -> None:
        with self._lock:
            held, self._held = self._held, None
        for line in held or ():
            _write(line)

    def said(self) -> str:
        """What has been held back, in one line; the first of its lines say most."""
        self.join()
        lines = [line.decode(errors="replace").removeprefix('Exception in thread "main" ') for line in self._held or ()]
        return " ".join(line.strip() for line in lines if line.strip() and not line.startswith(("\t", " ")))[:400]

    def join(self) -> None:
        self._thread.join(1)  # a child of the JVM may hold the pipe open for longer

    def _pass_on(self, ours: int) -> None:
        with open(ours, "rb") as lines:
            for line in _telling(lines):
                with self._lock:
                    if self._held is not None:
                        self._held.append(line)
                        continue
                _write(line)


def _telling(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines without those that tell nobody anything: what every start says, and what a Python worker says whose
    task was stopped while it wrote."""
    trace: list[bytes] = []
    for line in lines:
        if line.startswith(b"Traceback (most recent call last)"):
            yield from trace
            trace = [line]
        elif trace and line.startswith(b" "):
            trace.append(line)
        elif trace:
            if not (line.startswith(b"BrokenPipeError") and any(b"pyspark/daemon.py" in entry for entry in trace)):
                yield from (*trace, line)
            trace = []
        elif not line.startswith(CHATTER):
            yield line
    yield from trace


def _write(line: bytes) -> None:
    with suppress(OSError):
        os.write(2, line)


class Classes(JVMView):  # type: ignore[misc]
    """PySpark's view of the JVM, which asks for a class and for its functions once, and not at each call of one."""

    def __init__(self, view: JVMView) -> None:
        self.__dict__.update(view.__dict__)

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaClass):
            found = self.__dict__[name] = _Class(found._fqn, found._gateway_client)
        return found


class _Class(JavaClass):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            self.__dict__[name] = found
        return found


class JvmProcess:
    """One that runs; `gateway` is PySpark's way into it."""

    def __init__(self, gateway: Any, stderr: Stderr, scratch: Scratch) -> None:
        self.gateway = gateway
        self.scratch = scratch
        self._process: subprocess.Popen[bytes] = gateway.proc
        self._stderr = stderr
        self._owner = os.getpid()

    @property
    def is_dead(self) -> bool:
        return self._process.poll() is not None

    def end(self, patience: float = PATIENCE) -> None:
        """Stop its session and itself, and wait for that; then forget it."""
        if os.getpid() != self._owner:  # a fork, which must not touch it
            return
        atexit.unregister(self.end)
        running = SparkContext._active_spark_context
        with suppress(Py4JError, OSError):  # of a JVM that is gone
            if running is not None:
                if self.is_dead:
                    running._jsc = None  # which py4j would try to reach, and complain
                running.stop()
        _forget()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return  # its directory is left to the next who starts
        self._stderr.join()
        self.scratch.remove()


def current() -> JvmProcess | None:
    """The one that this process has. A dead one is forgotten, and so is one without a session that is not ours."""
    gateway: Any = SparkContext._gateway
    found: JvmProcess | None = vars(gateway).get("ottla") if gateway is not None else None
    if found is not None and found.is_dead:
        found.end()
        return None
    if gateway is not None and found is None and SparkContext._active_spark_context is None:
        _forget()
    return found


def launch(conf: SparkConf, scratch: Scratch, environment: Mapping[str, str]) -> JvmProcess:
    stderr = Stderr()
    try:
        with _added(environment):
            gateway: Any = launch_gateway(conf, {"stderr": stderr.end})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        os.close(stderr.end)
        scratch.remove()
        raise PipelineError(f"Spark's JVM does not start: {stderr.said() or 'it says nothing'}") from error
    os.close(stderr.end)
    stderr.open()
    gateway.ottla = JvmProcess(gateway, stderr, scratch)
    atexit.register(gateway.ottla.end)
    gateway.jvm = Classes(gateway.jvm)
    SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm
    jvm: JvmProcess = gateway.ottla
    return jvm


def _forget() -> None:
    gateway: Any = SparkContext._gateway
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    with suppress(Exception):  # whatever state it is in
        gateway.shutdown()
    with suppress(OSError):
        gateway.proc.stdin.close()  # which it takes for its end


@contextmanager
def _added(environment: Mapping[str, str]) -> Iterator[None]:
    """PySpark starts the JVM with this process's environment. What people have set goes before ours."""
    added = {key: value for key, value in environment.items() if key not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for key in added:
            os.environ.pop(key, None)
