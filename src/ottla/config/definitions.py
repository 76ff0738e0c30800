"""How a setting is defined, read and shown: one definition from which all else is made.

A configuration is a class whose attributes are settings::

    class TopicConfig(Configuration):
        max_message_bytes: int = setting("max.message.bytes", INT, 1048588, at_least(0), "…", synonyms=(…,))

From that one line come the parser, the checks and their messages, the row of DescribeConfigs and the line in
`docs/configuration.md`. Values are read as Kafka reads them: text is trimmed, numbers are decimal and bounded by their
type, booleans are true or false in any case, a list is split at commas.

Names of a setting:
- `key`: Kafka's name today;
- `twins`: other names that Kafka itself has for it (`broker.id` for `node.id`); they are shown too;
- `aliases`: names from the texts or from older Kafka; accepted, never shown;
- `synonyms` (topic settings): the broker settings that supply the default, first one set wins, with the factor that
  turns the broker's unit into the topic's (`log.retention.hours` to milliseconds).

`no_effect` says why setting the key changes nothing so far; who sets it is told, nothing is ignored in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, ClassVar, Self, dataclass_transform

from ottla.config.errors import ConfigError

MAX_SHORT = 2**15 - 1
MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1


class ConfigType(IntEnum):
    """A setting's type, with the numbers of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, PASSWORD = ConfigType

_BITS = {SHORT: 16, INT: 32, LONG: 64}

# How a setting may change while the broker runs, in Kafka's words.
READ_ONLY = "read-only"
PER_BROKER = "per-broker"
CLUSTER_WIDE = "cluster-wide"

Value = Any  # bool | int | float | str | list[str] | None, as the setting's type says


class Legal:
    """A check on a parsed value, and the words for what passes it."""

    __slots__ = ("check", "words")

    def __init__(self, words: str, check: Callable[[Value], bool]) -> None:
        self.words = words
        self.check = check


def at_least(low: int) -> Legal:
    return Legal(f"at least {low}", lambda value: bool(value >= low))


def between(low: float, high: float) -> Legal:
    return Legal(f"from {low} to {high}", lambda value: bool(low <= value <= high))


def one_of(*names: str) -> Legal:
    return Legal("one of " + ", ".join(names), lambda value: value in names)


def some_of(*names: str) -> Legal:
    return Legal("any of " + ", ".join(names), lambda value: all(name in names for name in value))


class Setting:
    """One definition; see the module's head for the meaning of the names."""

    __slots__ = (
        "aliases",
        "attribute",
        "default",
        "doc",
        "dynamic",
        "key",
        "legal",
        "no_effect",
        "synonyms",
        "twins",
        "type",
    )

    def __init__(
        self,
        key: str,
        type: ConfigType,
        default: Value,
        legal: Legal | None,
        doc: str,
        *,
        twins: tuple[str, ...],
        aliases: tuple[str, ...],
        synonyms: tuple[tuple[str, int], ...],
        dynamic: str,
        no_effect: str,
    ) -> None:
        self.key = key
        self.type = type
        self.default = default
        self.legal = legal
        self.doc = doc
        self.twins = twins
        self.aliases = aliases
        self.synonyms = synonyms
        self.dynamic = dynamic
        self.no_effect = no_effect
        self.attribute = ""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.key, *self.twins, *self.aliases)

    @property
    def sensitive(self) -> bool:
        return self.type is PASSWORD

    @property
    def legal_words(self) -> str:
        """What a value must be, for messages and the reference."""
        of_type = {
            BOOLEAN: "true or false",
            STRING: "text",
            DOUBLE: "a number",
            LIST: "a comma-separated list",
            PASSWORD: "text",
        }.get(self.type, f"a whole number of {_BITS.get(self.type, 0)} bits")
        if self.legal is None:
            return of_type
        return f"{of_type}, {self.legal.words}" if self.type is not STRING else self.legal.words

    def parse(self, text: str | None) -> Value:
        """The value that a text stands for; ConfigError where it stands for none."""
        if text is None:
            raise ConfigError(self.key, None, f"must be {self.legal_words}")
        try:
            value = _parse(self.type, text)
            legal = self.legal is None or self.legal.check(value)
        except ValueError:
            legal = False
        if not legal:
            raise ConfigError(self.key, "[hidden]" if self.sensitive else text, f"must be {self.legal_words}")
        return value

    def show(self, value: Value) -> str | None:
        """The text that stands for a value, as Kafka's tools print it."""
        if value is None or self.type is STRING or self.type is PASSWORD:
            return value  # type: ignore[no-any-return]
        if self.type is BOOLEAN:
            return "true" if value else "false"
        if self.type is LIST:
            return ",".join(value)
        return _show_double(value) if self.type is DOUBLE else str(value)


def setting(
    key: str,
    type: ConfigType,
    default: Value,
    legal: Legal | None,
    doc: str,
    *,
    twins: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
    synonyms: tuple[tuple[str, int], ...] = (),
    dynamic: str = READ_ONLY,
    no_effect: str = "",
) -> Any:
    """Declares an attribute of a Configuration. (Any, so that the attribute's own annotation rules.)"""
    return Setting(
        key,
        type,
        default,
        legal,
        doc,
        twins=twins,
        aliases=aliases,
        synonyms=synonyms,
        dynamic=dynamic,
        no_effect=no_effect,
    )


@dataclass_transform(kw_only_default=True)
class Configuration:
    """Base of the configuration classes: attributes declared by `setting`, every one with a default.

    Built without `dataclasses`, which takes 4 ms of a broker's start for a hundred fields.
    """

    settings: ClassVar[dict[str, Setting]]  # by key
    names: ClassVar[dict[str, Setting]]  # by every name

    def __init_subclass__(cls) -> None:
        inherited = cls.__mro__[1]
        cls.settings = dict(getattr(inherited, "settings", {}))
        cls.names = dict(getattr(inherited, "names", {}))
        for attribute, found in list(vars(cls).items()):
            if isinstance(found, Setting):
                found.attribute = attribute
                cls.settings[found.key] = found
                for name in found.names:
                    if name in cls.names:
                        raise TypeError(f"{name} is defined twice")
                    cls.names[name] = found
                delattr(cls, attribute)

    def __init__(self, **values: Value) -> None:
        """Takes values as they are: checks belong to the readers of text."""
        attributes = self.__dict__
        for known in self.settings.values():
            default = known.default
            attributes[known.attribute] = list(default) if type(default) is list else default
        for attribute, value in values.items():
            if attribute not in attributes:
                raise TypeError(f"{type(self).__name__} has no setting {attribute}")
            attributes[attribute] = value

    def value(self, key: str) -> Value:
        """The value under a key."""
        return self.__dict__[self.settings[key].attribute]

    def shown(self) -> str:
        """All values on one line, in the manner of Kafka's log; no secrets."""
        return ", ".join(
            f"{key} -> {'[hidden]' if known.sensitive else known.show(self.value(key))}"
            for key, known in self.settings.items()
        )

    def replace(self, **values: Value) -> Self:
        """A copy with other values."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        for attribute, value in values.items():
            if attribute not in copy.__dict__:
                raise TypeError(f"{type(self).__name__} has no setting {attribute}")
            copy.__dict__[attribute] = value
        return copy

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Only what differs from the defaults, and no secrets."""
        shown = (
            f"{known.attribute}={'…' if known.sensitive else repr(self.value(known.key))}"
            for known in self.settings.values()
            if self.value(known.key) != known.default
        )
        return f"{type(self).__name__}({', '.join(shown)})"


def canonical(names: Mapping[str, Setting], given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Known texts under their keys of today, and the unknown rest. Two names of one setting must agree."""
    known: dict[str, str] = {}
    spelled: dict[str, str] = {}
    rest: dict[str, str] = {}
    for name, text in given.items():
        found = names.get(name)
        if found is None:
            rest[name] = text
            continue
        key = found.key
        if key in known and known[key].strip() != text.strip():
            raise ConfigError(name, text, f"the same setting is given as {spelled[key]}={known[key]}")
        known[key] = text
        spelled[key] = name
    return known, rest


def _parse(type: ConfigType, text: str) -> Value:
    text = text.strip() if type is not PASSWORD else text
    if type is STRING or type is PASSWORD:
        return text
    if type is LIST:
        return [part.strip() for part in text.split(",")] if text else []
    if type is BOOLEAN:
        word = text.lower()
        if word not in ("true", "false"):
            raise ValueError(text)
        return word == "true"
    if type is DOUBLE:
        # float() alone would take 1_000, nan and inf
        if text.strip("+-.0123456789eE") or abs(float(text)) == float("inf"):
            raise ValueError(text)
        return float(text)
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 40:
        raise ValueError(text)
    number = int(text)
    limit = 1 << (_BITS[type] - 1)
    if not -limit <= number < limit:
        raise ValueError(text)
    return number


def _show_double(value: float) -> str:
    """As Java writes a double: 0.5, 1.0E7, 1.7976931348623157E308."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    mantissa, _, exponent = f"{value:.16e}".partition("e")
    for digits in range(17):  # the shortest that reads back as the same number
        shorter = f"{value:.{digits}e}"
        if float(shorter) == value:
            mantissa, _, exponent = shorter.partition("e")
            break
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
