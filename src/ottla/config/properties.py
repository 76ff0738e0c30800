r"""Property files, read by Java's rules.

    # comment      ! comment as well
    key=value      key : value      key value        blanks around the separator do not count
    long.key=one,\                                   a backslash at the end goes on in the next line,
             two                                     whose leading blanks do not count
    escapes: \t \n \r \f \uXXXX, any other escaped character stands for itself (also = : # ! and blanks in keys)

A later line wins over an earlier one with the same key. Text is UTF-8, or else ISO 8859-1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(Exception):
    """A property file that cannot be read."""

    def __init__(self, source: str, line: int, what: str) -> None:
        super().__init__(source, line, what)
        self.source = source
        self.line = line
        self.what = what

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}: {self.what}"


def read_properties(path: str | Path) -> dict[str, str]:
    """The keys and values of a file; OSError where it cannot be read."""
    raw = Path(path).read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("iso-8859-1")
    return parse_properties(text, str(path))


def parse_properties(text: str, source: str = "properties") -> dict[str, str]:
    """The keys and values of a text."""
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        name = _unescape(key, source, number)
        if not name:
            raise PropertiesError(source, number, f"no key before {line[:20]!r}")
        found[name] = _unescape(value, source, number)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations, each with the number of its first line; comments and empty lines left out."""
    pending, start = "", 0
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = line.lstrip(_BLANKS)
        if not start and (not line or line[0] in "#!"):
            continue
        start = start or number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        if pending or line:
            yield start, pending + line
        pending, start = "", 0
    if pending:
        yield start, pending


def _split(line: str) -> tuple[str, str]:
    """At the first separator that is not escaped."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(text: str, source: str, number: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    index = 0
    while index < len(text):
        character = text[index]
        if character != "\\":
            out.append(character)
            index += 1
            continue
        escaped = text[index + 1 : index + 2]
        if escaped == "u":
            digits = text[index + 2 : index + 6]
            if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise PropertiesError(source, number, f"\\u needs four hexadecimal digits, not {digits!r}")
            out.append(chr(int(digits, 16)))
            index += 6
        else:
            out.append(_ESCAPES.get(escaped, escaped))
            index += 2
    joined = "".join(out)
    try:  # \ud83d\ude00 is one character
        return joined.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise PropertiesError(source, number, "half of a surrogate pair") from None
