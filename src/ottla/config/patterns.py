"""Regular expressions that cannot stall the broker: whole values are matched, in time linear in their length.

Patterns come from administrators' requests and values from clients, and Python's own engine tries alternatives one
after the other, which takes `(a+)+b` longer than anybody waits. Here all alternatives go forward together, one step per
character, as sets of places in the pattern (Thompson's construction); sets that were met are remembered.

What is understood, with Java's meaning (Kafka's patterns are Java's):

    x  .  \\.  \\t \\n \\r \\f        one character; `.` is any but the end of a line
    \\d \\w \\s \\D \\W \\S          classes of ASCII characters, and their opposites
    [a-z_\\d]  [^…]               a choice of characters
    (…)  (?:…)  |                groups, alternatives
    * + ? {n} {n,} {n,m}         repetition; a `?` behind it changes nothing, since the whole value must match
    ^ $                          start and end
    (?i)                         at the very start: upper and lower case are the same

Back references, looking around, possessive repetition, word boundaries and the rest of Java's are refused: some of them
cannot be matched in linear time, and none is needed to name clients. So are patterns of more than MAX_PLACES places.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

MAX_PLACES = 500  # in the pattern, with repetitions written out
MAX_DEPTH = 50  # of groups in groups
MAX_REMEMBERED = 2000

_LINE_ENDS = "\n\r\u0085\u2028\u2029"
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_DIGITS = (("0", "9"),)
_WORD = (("a", "z"), ("A", "Z"), ("0", "9"), ("_", "_"))
_SPACE = (("\t", "\r"), (" ", " "))
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}

_CHARACTER, _FORK, _START, _END, _DONE = range(5)

Ranges = tuple[tuple[str, str], ...]


class IllegalPattern(ValueError):
    """A text that is no pattern, or one that is not taken; says why."""


class _Choice:
    """Which characters fit a place."""

    __slots__ = ("exclude", "opposites", "ranges")

    def __init__(self, ranges: Ranges, exclude: bool = False, opposites: Iterable[Ranges] = ()) -> None:
        self.ranges = ranges
        self.exclude = exclude
        self.opposites = tuple(opposites)  # \D and the like inside of brackets

    def fits(self, character: str) -> bool:
        found = _within(self.ranges, character) or any(not _within(one, character) for one in self.opposites)
        return found != self.exclude


def _within(ranges: Ranges, character: str) -> bool:
    return any(low <= character <= high for low, high in ranges)


_ANY = _Choice(tuple((end, end) for end in _LINE_ENDS), exclude=True)

# What the parser builds and the compiler walks: a place is a _Choice, or _START or _END.


class _Sequence(NamedTuple):
    parts: list[_Node]


class _Either(NamedTuple):
    parts: list[_Node]


class _Repeat(NamedTuple):
    part: _Node
    least: int
    most: int | None


_Node: TypeAlias = "_Choice | int | _Sequence | _Either | _Repeat"


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_ignore_case", "_known", "_places", "_start", "text")

    def __init__(self, text: str) -> None:
        """Raises IllegalPattern."""
        self.text = text
        self._ignore_case = text.startswith("(?i)")
        tree = _Parser(text, 4 if self._ignore_case else 0).whole()
        self._places: list[tuple[int, _Choice | None, tuple[int, ...]]] = [(_DONE, None, ())]
        first = self._compile(tree, 0)
        self._start = self._closure((first,), at_start=True, at_end=False)
        self._known: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, value: str) -> bool:
        """Whether the whole value fits."""
        known, now = self._known, self._start
        for character in value:
            following = known.get((now, character))
            if following is None:
                following = self._step(now, character)
                if len(known) >= MAX_REMEMBERED:
                    known.clear()
                known[now, character] = following
            if not following:
                return False
            now = following
        return 0 in self._closure(now, at_start=not value, at_end=True)

    def _step(self, now: frozenset[int], character: str) -> frozenset[int]:
        reached = []
        for at in now:
            kind, choice, following = self._places[at]
            if kind == _CHARACTER and choice is not None and self._fits(choice, character):
                reached.append(following[0])
        return self._closure(reached, at_start=False, at_end=False)

    def _fits(self, choice: _Choice, character: str) -> bool:
        if choice.fits(character):
            return True
        return self._ignore_case and (choice.fits(character.lower()) or choice.fits(character.upper()))

    def _closure(self, places: Iterable[int], *, at_start: bool, at_end: bool) -> frozenset[int]:
        """These places and all that are reached from them without a character."""
        found: set[int] = set()
        waiting = list(places)
        while waiting:
            at = waiting.pop()
            if at in found:
                continue
            found.add(at)
            kind, _, following = self._places[at]
            if kind == _FORK or (kind == _START and at_start) or (kind == _END and at_end):
                waiting += following
        return frozenset(found)

    # -- compiling: from the end of the pattern to its start, so that each place knows what follows it

    def _add(self, kind: int, choice: _Choice | None, following: tuple[int, ...]) -> int:
        if len(self._places) > MAX_PLACES:
            raise IllegalPattern(f"it has more than {MAX_PLACES} places, with repetitions written out")
        self._places.append((kind, choice, following))
        return len(self._places) - 1

    def _compile(self, node: _Node, after: int) -> int:
        if isinstance(node, _Choice):
            return self._add(_CHARACTER, node, (after,))
        if isinstance(node, int):
            return self._add(node, None, (after,))
        if isinstance(node, _Sequence):
            for part in reversed(node.parts):
                after = self._compile(part, after)
            return after
        if isinstance(node, _Either):
            return self._add(_FORK, None, tuple(self._compile(part, after) for part in node.parts))
        if node.most is None:
            again = self._add(_FORK, None, ())
            self._places[again] = (_FORK, None, (self._compile(node.part, again), after))
            after = again
        else:
            end = after
            for _ in range(node.most - node.least):
                after = self._add(_FORK, None, (self._compile(node.part, after), end))
        for _ in range(node.least):
            before = len(self._places)
            after = self._compile(node.part, after)
            if len(self._places) == before:
                break  # an empty group, however often
        return after


class _Parser:
    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.depth = 0

    def whole(self) -> _Node:
        found = self._either()
        if self.at < len(self.text):
            raise IllegalPattern("a ) too many")
        return found

    def _either(self) -> _Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else _Either(parts)

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts.append(self._repeated(self._single()))
        return _Sequence(parts)

    def _single(self) -> _Node:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return self._brackets()
        if character == ".":
            return _ANY
        if character == "^":
            return _START
        if character == "$":
            return _END
        if character == "\\":
            ranges, opposite = self._escaped()
            return _Choice(ranges, exclude=opposite)
        if character in "*+?":
            raise IllegalPattern(f"nothing to repeat before {character}")
        if character == "{":
            raise IllegalPattern("nothing to repeat before {, or a { that means itself and must be written \\{")
        return _Choice(((character, character),))

    def _group(self) -> _Node:
        if self._take("?") and not self._take(":"):
            raise IllegalPattern("of the groups that begin with (?, only (?:…) is understood, and (?i) at the start")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise IllegalPattern(f"groups are nested more than {MAX_DEPTH} deep")
        found = self._either()
        if not self._take(")"):
            raise IllegalPattern("a ) is missing")
        self.depth -= 1
        return found

    def _repeated(self, node: _Node) -> _Node:
        while self.at < len(self.text) and self.text[self.at] in "*+?{":
            character = self._next()
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(character) or self._counts()
            node = _Repeat(node, least, most)
            if self._take("+"):
                raise IllegalPattern("possessive repetition (a second +) is not understood")
            self._take("?")
            if self.at < len(self.text) and self.text[self.at] in "*+?{":
                raise IllegalPattern("a repetition of a repetition needs a group")
        return node

    def _counts(self) -> tuple[int, int | None]:
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at : end].partition(",") if end >= 0 else ("", "", "")
        if not (_is_number(low) and (not high or _is_number(high))):
            raise IllegalPattern("{ must be followed by n}, n,} or n,m}")
        self.at = end + 1
        least = int(low)
        most = least if not comma else int(high) if high else None
        if most is not None and most < least:
            raise IllegalPattern(f"{{{low},{high}}} is upside down")
        return least, most

    def _brackets(self) -> _Choice:
        exclude = self._take("^")
        ranges: list[tuple[str, str]] = []
        opposites: list[Ranges] = []
        first = True
        while first or not self._take("]"):
            first = False
            low = self._bracketed(ranges, opposites)
            if low is None:
                continue
            high = low
            if self.text[self.at : self.at + 1] == "-" and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
                self.at += 1
                found = self._bracketed(ranges, opposites)
                if found is None or found < low:
                    raise IllegalPattern(f"no range can begin with {low}- and go on so")
                high = found
            ranges.append((low, high))
        return _Choice(tuple(ranges), exclude, opposites)

    def _bracketed(self, ranges: list[tuple[str, str]], opposites: list[Ranges]) -> str | None:
        """The next character in brackets; None where it was a whole class, which is taken down."""
        character = self._next()
        if character == "[" or self.text.startswith("&&", self.at - 1):
            raise IllegalPattern("brackets in brackets and && are not understood; write \\[ and \\&")
        if character == "]":
            raise IllegalPattern("empty brackets")
        if character != "\\":
            return character
        found, opposite = self._escaped()
        if opposite:
            opposites.append(found)
        elif len(found) > 1 or found is _DIGITS:
            ranges += found
        else:
            return found[0][0]
        return None

    def _escaped(self) -> tuple[Ranges, bool]:
        """What stands behind a backslash, and whether its opposite is meant."""
        character = self._next()
        if character.lower() in _CLASSES:
            return _CLASSES[character.lower()], character.isupper()
        if character in _CONTROL:
            return ((_CONTROL[character],) * 2,), False
        if character.isascii() and character.isalnum():
            raise IllegalPattern(f"\\{character} is not understood")
        return ((character, character),), False

    def _take(self, character: str) -> bool:
        if self.text.startswith(character, self.at):
            self.at += 1
            return True
        return False

    def _next(self) -> str:
        if self.at >= len(self.text):
            raise IllegalPattern("it ends too early")
        self.at += 1
        return self.text[self.at - 1]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4
