r"""Regular expressions that cannot stall the broker: whole values are matched, in time linear in their length.

Patterns come from requests, values from clients, and Python's own engine tries alternatives one after the other, which
takes `(a+)+b` longer than anybody waits. These are RE2's, as in Kafka: no back references, no looking around. What its
groups matched is never asked for: to find it, RE2 leaves its automaton, and thousands of groups take it seconds for
each value. The library is loaded with the first pattern.
"""

from __future__ import annotations

MAX_MEMORY = 1 << 18  # of one compiled pattern, in bytes; the longest takes 10 ms for a topic's name


class IllegalPattern(ValueError):
    """A text that is no pattern, or one that is not taken; says why."""


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        import re2

        options = re2.Options()
        options.log_errors = False
        options.max_mem = MAX_MEMORY
        options.never_capture = True
        self.text = text
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            raise IllegalPattern(error.args[0].decode("utf-8", "replace")) from None
        except UnicodeEncodeError as error:
            raise IllegalPattern(str(error)) from None

    def matches(self, value: str) -> bool:
        """Whether the whole value fits."""
        return self._compiled.fullmatch(value) is not None
