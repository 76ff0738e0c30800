"""Two readers of one request, held against each other: the schema's, and one written by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from ottla.protocol import codec
from ottla.protocol.errors import MalformedMessage
from support.requests import frame_of
from support.strategies import message_strategy

Reader = Callable[[bytes, int], Any]

INTERESTING = (0, 1, 2, 3, 14, 17, 126, 127, 128, 129, 254, 255)


def check_on_damaged_frames(
    name: str, version: int, by_hand: Reader, by_schema: Reader, *, unread: tuple[str, ...] = (), seed: int = 1
) -> None:
    """Every truncation of some frames, and some hundred damaged ones: both readers refuse, or both read the same.

    What the schema alone may refuse is text that is not UTF-8, and the inside of tagged fields: `unread` has words of
    its complaints about those.
    """
    lenient = ("UTF-8", "tagged field", *unread)
    chance = random.Random(f"{name} {version} {seed}")
    for message in _examples(name, version):
        frame = frame_of(message, version, chance.choice([None, "client"]))
        for length in range(10, len(frame)):
            _compare(frame[:length], version, by_hand, by_schema, ("UTF-8",))
        for _ in range(120):
            damaged = bytearray(frame)
            for _ in range(chance.choice((1, 1, 2))):
                at = chance.randrange(8, len(damaged))
                match chance.randrange(4):
                    case 0:
                        damaged[at] ^= 1 << chance.randrange(8)
                    case 1:
                        damaged[at] = chance.choice(INTERESTING)
                    case 2:
                        del damaged[at : at + chance.randrange(1, 9)]
                    case _:
                        damaged[at:at] = chance.choices(INTERESTING, k=chance.randrange(1, 5))
                if len(damaged) < 12:
                    break
            _compare(bytes(damaged), version, by_hand, by_schema, lenient)


def _examples(name: str, version: int) -> list[Any]:
    """Some messages with something in them, the same in every run."""
    found: list[Any] = []

    @settings(
        max_examples=40,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        phases=[Phase.generate],
    )
    @given(message_strategy(name, version))
    def collect(message: Any) -> None:
        if 60 < len(codec.encode(message, version)) < 1500 and len(found) < 8:
            found.append(message)

    collect()
    assert found
    return found


def _compare(frame: bytes, version: int, by_hand: Reader, by_schema: Reader, lenient: tuple[str, ...]) -> None:
    expected, complaint = _read(by_schema, frame, version)
    found, refusal = _read(by_hand, frame, version)
    if complaint is None:
        assert refusal is None, f"only the hand-written reader refuses {frame.hex()}: {refusal}"
        assert found == expected, frame.hex()
    elif refusal is None:
        assert any(words in complaint for words in lenient), f"only the schema refuses {frame.hex()}: {complaint}"


def _read(reader: Reader, frame: bytes, version: int) -> tuple[Any, str | None]:
    try:
        return reader(frame, version), None
    except MalformedMessage as error:
        return None, str(error)
