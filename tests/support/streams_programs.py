"""Programs of the Streams DSL in words, which ottla (here) and Kafka Streams (StreamsOracle.java) both understand.

    stream:left group_by_key tumbling:10:5:final count
    stream:left table:right join:left

Sources come on a stack; a step takes what is on top of it, and puts its own result there. What is left in the end is
the program's result. Values are a letter and a digit. Some are special: a value with "c" empties an aggregate without
windows, one with "d" maps to nothing, one with "f" has no key, and "g9" is not in the groups of a table. A word may say
what ottla's functions are: expressions (`:sql`, as where it says nothing), Python (`:python`), or Python without types
(`:bare`). Windows have sizes and graces in ms; their results have the key KEY@START-END.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams import App, Text, hopping, session, sliding, tumbling, within
from ottla.streams.stream import Grouped, Stream
from ottla.streams.table import GlobalTable, GroupedTable, Table

FOUND = "case when value is null then key when value like 'f%' then null else concat('k', substring(value, 2)) end"
WINDOW = "concat(key.key, '@', unix_millis(key.start), '-', unix_millis(key.end))"
JOINED = "concat(coalesce(left, 'null'), '+', coalesce(right, 'null'))"


def build(app: App, program: str, output: str) -> None:
    """The program as steps of the application, from its topics `left`, `right` and `rows` to an output."""
    Program(app, program).result().to(output)


class Program:
    def __init__(self, app: App, program: str) -> None:
        self._app = app
        self._stack: list[Any] = []
        self._sources: dict[tuple[str, str], Any] = {}
        for word in program.split():
            name, *options = word.split(":")
            self._typed = "bare" not in options
            python = bool({"python", "bare"} & set(options))
            given = [option for option in options if option not in ("sql", "python", "bare")]
            getattr(self, f"_{name}")(*given, python=python)

    def result(self) -> Stream | Table:
        (made,) = self._stack
        return made  # type: ignore[no-any-return]

    # -- sources -------------------------------------------------------------------------------------------------

    def _stream(self, topic: str, *, python: bool) -> None:
        self._source("stream", topic)

    def _table(self, topic: str, *, python: bool) -> None:
        self._source("table", topic)

    def _global(self, topic: str, *, python: bool) -> None:
        self._source("global_table", topic)

    def _source(self, kind: str, topic: str) -> None:
        place = (kind, topic)
        if place not in self._sources:
            self._sources[place] = getattr(self._app, kind)(topic, key=Text, value=Text)
        self._stack.append(self._sources[place])

    # -- record by record ----------------------------------------------------------------------------------------

    def _merge(self, *, python: bool) -> None:
        other, one = self._stack.pop(), self._stack.pop()
        self._stack.append(one.merge(other))

    def _split(self, *, python: bool) -> None:
        stream = self._stack.pop()
        if python:
            branches = stream.split(odd=lambda value: odd(value), even=lambda value: value is not None)
            one = branches["odd"].map_values(lambda value: f"odd {value}", value=Text)
            two = branches["even"].map_values(lambda value: f"even {value}", value=Text)
            rest = branches["default"].map_values(lambda value: "none", value=Text)
        else:
            branches = stream.split(odd="right(value, 1) in (1, 3, 5, 7, 9)", even="value is not null")
            one = branches["odd"].map_values("concat('odd ', value)")
            two = branches["even"].map_values("concat('even ', value)")
            rest = branches["default"].map_values("'none'")
        self._stack.append(one.merge(two, rest))

    def _filter(self, *, python: bool) -> None:
        self._put("filter", (lambda value: odd(value)) if python else "right(value, 1) in (1, 3, 5, 7, 9)")

    def _filter_not(self, *, python: bool) -> None:
        self._put("filter_not", (lambda value: odd(value)) if python else "right(value, 1) in (1, 3, 5, 7, 9)")

    def _map_values(self, *, python: bool) -> None:
        sql = "case when value is null then 'none' when value not like 'd%' then upper(value) end"
        self._put("map_values", (lambda value: loud(value)) if python else sql, value=Text)

    def _flat_map_values(self, *, python: bool) -> None:
        sql = "split(coalesce(value, 'null'), '')"
        self._put("flat_map_values", (lambda value: list(str(value or "null"))) if python else sql, value=Text)

    def _select_key(self, *, python: bool) -> None:
        self._put("select_key", self._letter(python), key=Text)

    def _to_table(self, *, python: bool) -> None:
        self._put("to_table")

    def _put(self, step: str, *functions: Any, **options: Any) -> None:
        self._stack.append(getattr(self._stack.pop(), step)(*functions, **(options if self._typed else {})))

    def _letter(self, python: bool) -> Any:
        return (lambda value: letter(value)) if python else "case when value not like 'f%' then left(value, 1) end"

    # -- groups --------------------------------------------------------------------------------------------------

    def _group_by_key(self, *, python: bool) -> None:
        self._put("group_by_key")

    def _group_by(self, *, python: bool) -> None:
        if isinstance(self._stack[-1], Table):
            values: Any = (lambda value: None if value == "g9" else value) if python else "nullif(value, 'g9')"
            types = {"key": Text, "value": Text} if self._typed else {}
            self._stack.append(self._stack.pop().group_by(self._letter(python), values=values, **types))
        else:
            self._put("group_by", self._letter(python), key=Text)

    def _tumbling(self, size: str, grace: str, final: str = "", *, python: bool) -> None:
        self._windowed(tumbling(ms=int(size), grace=_seconds(grace)), final)

    def _hopping(self, size: str, advance: str, grace: str, final: str = "", *, python: bool) -> None:
        self._windowed(hopping(ms=int(size), every=_seconds(advance), grace=_seconds(grace)), final)

    def _sliding(self, size: str, grace: str, final: str = "", *, python: bool) -> None:
        self._windowed(sliding(ms=int(size), grace=_seconds(grace)), final)

    def _session(self, gap: str, grace: str, final: str = "", *, python: bool) -> None:
        self._windowed(session(ms=int(gap), grace=_seconds(grace)), final)

    def _windowed(self, window: Any, final: str) -> None:
        grouped = self._stack.pop().windowed_by(window)
        self._stack.append(grouped.final() if final else grouped)

    def _count(self, *, python: bool) -> None:
        grouped = self._stack.pop()
        self._aggregated(grouped, grouped.count(), str if python else "cast(value as string)")

    def _reduce(self, *, python: bool) -> None:
        grouped = self._stack.pop()
        if isinstance(grouped, GroupedTable):
            made = grouped.reduce(lambda one, other: merged(one, other), lambda all, one: without(all, one))
        elif grouped._window is not None:
            made = grouped.reduce(lambda one, other: merged(one, other))
        else:
            made = grouped.reduce(lambda one, other: None if other.startswith("c") else one + other)
        self._aggregated(grouped, made, None)

    def _aggregate(self, *, python: bool) -> None:
        grouped = self._stack.pop()

        def add(_key: str, value: str, all: str) -> str:
            return merged(all, value)

        if isinstance(grouped, GroupedTable):
            made = grouped.aggregate(str, add, lambda key, value, all: without(all, value), value=Text)
        elif grouped._window is not None:
            merge = lambda key, one, other: merged(one, other)  # noqa: E731
            made = grouped.aggregate(str, add, merge=merge, value=Text)
        else:
            made = grouped.aggregate(
                str, lambda key, value, all: None if value.startswith("c") else all + value, value=Text
            )
        self._aggregated(grouped, made, None)

    def _aggregated(self, grouped: Any, made: Table, text: Any) -> None:
        if text is not None:
            made = made.map_values(text, value=Text)
        windowed = isinstance(grouped, Grouped) and grouped._window is not None
        self._stack.append(made.to_stream().select_key(WINDOW) if windowed else made)

    # -- joins ---------------------------------------------------------------------------------------------------

    def _join(self, how: str, before: str = "", after: str = "", grace: str = "", *, python: bool) -> None:
        right, left = self._stack.pop(), self._stack.pop()
        options: dict[str, Any] = {"how": how, **({"value": Text} if self._typed else {})}
        if isinstance(right, GlobalTable):
            options["key"] = (lambda key, value: found(key, value)) if python else FOUND
        elif isinstance(right, Stream):
            options["within"] = within(before=_seconds(before), after=_seconds(after), grace=_seconds(grace))
        joiner: Callable[..., str] | str = (lambda one, other: joined(one, other)) if python else JOINED
        self._stack.append(left.join(right, joiner, **options))


def _seconds(ms: str) -> float:
    return int(ms) / 1000


# -- functions of values: those of StreamsOracle.java -----------------------------------------------------------------


def odd(value: str | None) -> bool:
    return value is not None and value[-1] in "13579"


def loud(value: str | None) -> str | None:
    return "none" if value is None else None if value.startswith("d") else value.upper()


def letter(value: str | None) -> str | None:
    return None if value is None or value.startswith("f") else value[0]


def found(key: str | None, value: str | None) -> str | None:
    return key if value is None else None if value.startswith("f") else f"k{value[1:]}"


def joined(one: str | None, other: str | None) -> str:
    return f"{one or 'null'}+{other or 'null'}"


def merged(one: str | None, other: str | None) -> str:
    texts = ["null" if text is None else text for text in (one, other)]
    return ",".join(sorted(value for text in texts for value in text.split(",") if value))


def without(all: str, value: str) -> str:
    values = all.split(",")
    values.remove(value)
    return ",".join(values)
