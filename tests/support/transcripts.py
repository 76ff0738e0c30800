"""Transcripts: what somebody types at a shell, and what the tools answer, as tests.

A transcript is a text file. Its commands run in turn against one broker of the file's own, under Kafka's names
(`kafka-topics`, `kafka-topics.sh`, `bin/kafka-topics.sh`) or as `ottla …`, in a directory of the file's own.

    # a remark; above the first command, `#% key=value` is a property of the broker
    $ words             run this; a backslash at the end goes on in the next line
    $~ words            the same; its lines may come in any order
    $+ words            the same; again and again until it prints just that
    < text              a line of its input, which ends (^D) after the last one
    ^C                  when the lines above have come, interrupt it
    ! text              a line of its stderr
    ? 1                 its exit status; 0 where nothing is said
    @ name              a file of that name is written, with the lines that follow up to an empty one
    text                a line of its stdout

All lines of stdout and stderr must be as written. `…` stands for anything within a line, alone for any number of lines;
blanks and tabs of any number are alike, and empty lines at the end do not count. A line of output that begins like one
of the signs above is written with a backslash before it.

Hosts: an address with port 2181 becomes the ZooKeeper's, whatever its host and path; one with a port from 9092 to 9094
becomes the broker's; in what is expected, too. The warning that --zookeeper is deprecated need not be written.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ottla.cli import main

PATIENCE = 30.0
INTERRUPT = "^C"
DEPRECATED = "Warning: --zookeeper is deprecated; use --bootstrap-server."

ZOOKEEPERS = re.compile(r"[\w.-]+:2181(/[\w/-]*)?")
BROKERS = re.compile(r"[\w.-]+:909[234]\b")


@dataclass(slots=True)
class Step:
    """One command, or one file."""

    line: int
    words: str
    any_order: bool = False
    repeated: bool = False
    is_file: bool = False
    typed: list[str] = field(default_factory=list)
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    status: int = 0


@dataclass(slots=True)
class Script:
    properties: dict[str, str]
    steps: list[Step]

    @property
    def needs_zookeeper(self) -> bool:
        return any(ZOOKEEPERS.search(step.words) for step in self.steps)


def read(text: str) -> Script:
    script = Script({}, [])
    lines = iter(enumerate(text.splitlines(), 1))
    step = None
    for number, line in lines:
        if line.startswith("#% "):
            key, _, value = line[3:].partition("=")
            script.properties[key.strip()] = value.strip()
        elif line.startswith("#"):
            continue
        elif found := re.fullmatch(r"\$([~+]*) (.*)", line):
            signs, words = found.groups()
            while words.endswith("\\"):
                words = words[:-1] + next(lines)[1].strip()
            step = Step(number, words, any_order="~" in signs, repeated="+" in signs)
            script.steps.append(step)
        elif line.startswith("@ "):
            step = Step(number, line[2:].strip(), is_file=True)
            script.steps.append(step)
            for _, content in lines:
                if not content:
                    break
                step.out.append(content)
            step = None
        elif step is None:
            if line.strip():
                raise ValueError(f"line {number} belongs to no command: {line!r}")
        elif line.startswith("< "):
            step.typed.append(line[2:])
        elif line.startswith("! "):
            step.err.append(line[2:])
        elif line.startswith("? "):
            step.status = int(line[2:])
        else:
            step.out.append(line.removeprefix("\\"))
    return script


class Session:
    """Runs the steps of a script."""

    def __init__(self, directory: Path, bootstrap: str, zookeeper: str | None) -> None:
        self._directory = directory
        self._bootstrap = bootstrap
        self._zookeeper = zookeeper

    def play(self, script: Script, name: str) -> None:
        for step in script.steps:
            if step.is_file:
                (self._directory / step.words).write_text("".join(line + "\n" for line in step.out))
                continue
            deadline = time.monotonic() + PATIENCE
            while difference := self._difference(step):
                if not step.repeated or time.monotonic() > deadline:
                    raise AssertionError(f"{name}, line {step.line}: $ {self._here(step.words)}\n{difference}")
                time.sleep(0.05)

    def _here(self, text: str) -> str:
        if self._zookeeper is not None:
            text = ZOOKEEPERS.sub(self._zookeeper, text)
        return BROKERS.sub(self._bootstrap, text)

    def _difference(self, step: Step) -> str:
        """What differs from what is written, or nothing."""
        words = shlex.split(self._here(step.words))
        typed = "".join(line + "\n" for line in step.typed)
        if INTERRUPT in step.out:
            before = step.out[: step.out.index(INTERRUPT)]
            expected = [line for line in step.out if line != INTERRUPT]
            status, out, err = self._interrupted(words, typed, len(before))
        else:
            expected = step.out
            status, out, err = run_here(words, typed, self._directory)
        said = [line for line in err if line != DEPRECATED]
        wanted = [self._here(line) for line in expected]
        problems = []
        if status != step.status:
            problems.append(f"status {status}, not {step.status}")
        if not agree(wanted, out, any_order=step.any_order):
            problems.append("stdout should be:\n" + _indented(wanted) + "but is:\n" + _indented(out))
        wanted = [self._here(line) for line in step.err]
        if not agree(wanted, said):
            problems.append("stderr should be:\n" + _indented(wanted) + "but is:\n" + _indented(said))
        return "\n".join(problems)

    def _interrupted(self, words: list[str], typed: str, lines: int) -> tuple[int, list[str], list[str]]:
        """As a process of its own, interrupted when it has printed so many lines."""
        code = "import sys; from support.transcripts import run; sys.exit(run(sys.argv[1:]))"
        root = Path(__file__).resolve().parents[1]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, sys.path), str(root)])}
        with (
            (self._directory / "stderr").open("w+") as err,
            subprocess.Popen(
                [sys.executable, "-c", code, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
                cwd=self._directory,
                env=environment,
            ) as process,
        ):
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(typed)
            process.stdin.flush()
            with _watchdog(process):
                out = [line for _ in range(lines) if (line := process.stdout.readline())]
                process.send_signal(signal.SIGINT)
                rest, _ = process.communicate()
            err.seek(0)
            return process.returncode, [*"".join(out).splitlines(), *rest.splitlines()], err.read().splitlines()


@contextlib.contextmanager
def _watchdog(process: subprocess.Popen[str]) -> Iterator[None]:
    """Ends a process that prints less than it should."""
    from threading import Timer

    timer = Timer(PATIENCE, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def run(words: list[str]) -> int:
    """One command line; returns its exit status."""
    name = Path(words[0]).name
    if name == "ottla":
        return main.run(words[1:])
    return main.run_by_kafka_name(name, words[1:])


def run_here(words: list[str], typed: str, directory: Path) -> tuple[int, list[str], list[str]]:
    """One command line in this process, with streams of its own: its status, stdout and stderr."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(typed.encode()), "utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(directory):
            status = run(words)
    finally:
        sys.stdin = before
    return status, *(stream.buffer.getvalue().decode().splitlines() for stream in (out, err))  # type: ignore[attr-defined]


def agree(expected: list[str], said: list[str], *, any_order: bool = False) -> bool:
    """Whether the lines are as written; see the head."""
    expected, said = _trimmed(expected), _trimmed(said)
    if any_order:
        return len(expected) == len(said) and _each_finds_one([_pattern(line) for line in expected], said)
    places = {0}  # how many lines of `said` may be used up
    for line in expected:
        if line == "…":
            places = set(range(min(places, default=len(said) + 1), len(said) + 1))
        else:
            fits = _pattern(line).fullmatch
            places = {place + 1 for place in places if place < len(said) and fits(said[place])}
    return len(said) in places


def _each_finds_one(patterns: list[re.Pattern[str]], lines: list[str]) -> bool:
    left = list(lines)
    for pattern in sorted(patterns, key=lambda one: one.pattern.count(".*")):
        found: Callable[[str], object] = pattern.fullmatch
        match = next((line for line in left if found(line)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _trimmed(lines: list[str]) -> list[str]:
    done = [" ".join(line.split()) for line in lines]
    while done and not done[-1]:
        done.pop()
    return done


def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, line.split("…"))))


def _indented(lines: list[str]) -> str:
    return "".join(f"    {line}\n" for line in lines) or "    (nothing)\n"
