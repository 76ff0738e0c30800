"""What producers say to a broker about transactions, right and wrong, and what they hear: scenes, told on raw frames.

Each scene is a function that takes a `Stage`. `say` holds an answer against what it must be; what a real Kafka answers
is the same, unless the line says otherwise (and docs/choices.md why). So one text tests both. every.py has all scenes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from ottla.protocol import messages as m
from support.transactional import Producer, find_coordinator, is_led, name, patiently
from support.wire import Wire

SAME = object()


def find_group_coordinator(wire: Wire, group: str) -> None:
    request = m.FindCoordinatorRequest(coordinator_keys=[group])
    patiently(lambda: name(wire.call(request, 4).coordinators[0].error_code), ("COORDINATOR_NOT_AVAILABLE",))


class Said(NamedTuple):
    scene: str
    line: str
    heard: Any
    ottla: Any
    kafka: Any


class Stage:
    """A broker, names that nobody else uses, and what was said."""

    def __init__(self, wire: Wire, scene: str) -> None:
        self.wire = wire
        self.scene = scene
        self.said: list[Said] = []
        self._numbers = count()

    def say(self, line: str, heard: Any, expected: Any, *, kafka: Any = SAME) -> None:
        self.said.append(Said(self.scene, line, heard, expected, expected if kafka is SAME else kafka))

    def name(self, what: str) -> str:
        return f"{self.scene}-{what}-{next(self._numbers)}"

    def topic(self, partitions: int = 1, **configs: str) -> str:
        name = self.name("topic")
        self.create(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        return name

    def create(self, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> bytes:
        """Make a topic and wait for it; returns its id."""
        id = self.wire.create(name, partitions, configs)
        for index in range(partitions):
            patiently(lambda index=index: is_led(self.wire, name, index), (False,))
        return id

    def producer(self, id: str | None = None, **options: Any) -> Producer:
        made = Producer(self.wire, id or self.name("id"), **options)
        find_coordinator(self.wire, made.id)
        assert made.init() == "NONE"
        return made


Scene = Callable[[Stage], None]
SCENES: list[Scene] = []


def scene(told: Scene) -> Scene:
    SCENES.append(told)
    return told


def play(told: Scene, wire: Wire) -> list[Said]:
    stage = Stage(wire, told.__name__)
    told(stage)
    return stage.said
