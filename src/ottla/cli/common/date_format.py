"""Times in the patterns of Java's SimpleDateFormat, which some of Kafka's tools take: `yyyy-MM-dd HH:mm:ss:SSS`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

import click

DEFAULT = "yyyy-MM-dd HH:mm:ss:SSS"

_PART = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'")


def _number(read: Callable[[datetime], int]) -> Callable[[datetime, int], str]:
    return lambda at, width: f"{read(at):0{width}d}"


def _name(short: str, long: str) -> Callable[[datetime, int], str]:
    return lambda at, width: at.strftime(long if width > 3 else short)


def _year(at: datetime, width: int) -> str:
    return f"{at.year % 100:02d}" if width == 2 else f"{at.year:0{width}d}"


def _month(at: datetime, width: int) -> str:
    return _name("%b", "%B")(at, width) if width > 2 else f"{at.month:0{width}d}"


_LETTERS: dict[str, Callable[[datetime, int], str]] = {
    "y": _year,
    "M": _month,
    "d": _number(lambda at: at.day),
    "D": _number(lambda at: at.timetuple().tm_yday),
    "H": _number(lambda at: at.hour),
    "h": _number(lambda at: (at.hour - 1) % 12 + 1),
    "m": _number(lambda at: at.minute),
    "s": _number(lambda at: at.second),
    "S": _number(lambda at: at.microsecond // 1000),
    "E": _name("%a", "%A"),
    "a": lambda at, width: at.strftime("%p"),
    "z": lambda at, width: at.strftime("%Z"),
    "Z": lambda at, width: at.strftime("%z"),
}


def formatter(pattern: str) -> Callable[[float], str]:
    """Writes seconds since 1970 in local time; click.UsageError where the pattern cannot be used."""
    parts: list[str | tuple[Callable[[datetime, int], str], int]] = []
    for match in _PART.finditer(pattern):
        text = match.group()
        if match.group(1) is not None:
            parts.append(match.group(1).replace("''", "'") or "'")
        elif text == "'":
            raise click.UsageError(f"the date format {pattern!r} has a quotation mark without its end")
        elif match.group(2) is None:
            parts.append(text)
        elif match.group(2) in _LETTERS:
            parts.append((_LETTERS[match.group(2)], len(text)))
        else:
            raise click.UsageError(f"{text[0]!r} in the date format {pattern!r} is none of {''.join(_LETTERS)}")

    def written(seconds: float) -> str:
        at = datetime.fromtimestamp(seconds).astimezone()
        return "".join(part if isinstance(part, str) else part[0](at, part[1]) for part in parts)

    return written
