"""One tool against one broker, in few words: `Tool("kafka-topics", broker.bootstrap)("--list").out`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from support.transcripts import run_here


class Said(NamedTuple):
    status: int
    out: list[str]
    err: list[str]

    @property
    def json(self) -> Any:
        return json.loads("\n".join(self.out))


class Tool:
    """`name`: a script of Kafka's, or `ottla topics` and the like. A call takes words as at a shell."""

    def __init__(self, name: str, bootstrap: str, directory: Path | None = None) -> None:
        self._words = [*name.split(), "--bootstrap-server", bootstrap]
        self._directory = directory or Path()

    def __call__(self, words: str, typed: str = "") -> Said:
        return Said(*run_here([*self._words, *shlex.split(words)], typed, self._directory))

    def works(self, words: str) -> list[str]:
        """Its lines; it must succeed and say nothing on stderr."""
        said = self(words)
        assert (said.status, said.err) == (0, []), said
        return said.out
