"""What the members of a consumer group read: topics by name, and patterns with the topics that fit them.

A pattern is matched when it is new, against all topics, and again when topics come or go, against these alone; so what
a member reads is known at once. It is kept while a member has it. Patterns are RE2's and fit whole names. To try all
topics may take seconds: a broker does so beforehand, in a thread, and brings what it `Matched`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from ottla.config.patterns import IllegalPattern, Pattern
from ottla.groups.consumer.members import Profile

NONE: frozenset[str] = frozenset()


class Matched(NamedTuple):
    """A pattern, names that it was tried on, and those of them that fit."""

    pattern: Pattern
    names: Collection[str]
    fitting: frozenset[str]

    @classmethod
    def find(cls, text: str, names: Collection[str]) -> Matched:
        """IllegalPattern when the text is none."""
        pattern = Pattern(text)
        return cls(pattern, names, frozenset(filter(pattern.matches, names)))


class Subscriptions:
    __slots__ = ("_compiled", "_names", "_readers", "topics_of_pattern")

    def __init__(self) -> None:
        self._names: Counter[str] = Counter()  # topic -> members that name it
        self._readers: Counter[str] = Counter()  # pattern -> members that have it
        self._compiled: dict[str, Pattern | None] = {}
        self.topics_of_pattern: dict[str, frozenset[str]] = {}

    def add(self, profile: Profile) -> None:
        self._names.update(profile.topics)
        if profile.regex:
            self._readers[profile.regex] += 1

    def remove(self, profile: Profile) -> None:
        for name in profile.topics:
            _decrement(self._names, name)
        if profile.regex:
            _decrement(self._readers, profile.regex)

    def forget_unread(self) -> list[str]:
        """Let go of patterns that nobody has any more; returns those that had topics, or could have had."""
        unread = [pattern for pattern in self.topics_of_pattern if pattern not in self._readers]
        for pattern in unread:
            del self.topics_of_pattern[pattern]
            self._compiled.pop(pattern, None)
        return unread

    def match(self, pattern: str, names: Collection[str], matched: Matched | None) -> None:
        """Take in a pattern that was not there. IllegalPattern when it is none.

        `matched`: what is known of it; names may have come and gone since.
        """
        if matched is None:
            matched = Matched.find(pattern, names)
        compiled, tried, fitting = matched
        self._compiled[pattern] = compiled
        self.topics_of_pattern[pattern] = frozenset(
            name for name in names if name in fitting or (name not in tried and compiled.matches(name))
        )

    def topics_changed(self, changed: Collection[str], existing: Collection[str]) -> list[str]:
        """Match these topics anew; returns the patterns that have other topics for it."""
        found = []
        for pattern, topics in self.topics_of_pattern.items():
            compiled = self._pattern(pattern)
            if compiled is None:
                continue
            fitting = {name for name in changed if name in existing and compiled.matches(name)}
            updated = topics - set(changed) | fitting
            if updated != topics:
                self.topics_of_pattern[pattern] = updated
                found.append(pattern)
        return found

    def _pattern(self, text: str) -> Pattern | None:
        if text not in self._compiled:
            try:
                self._compiled[text] = Pattern(text)
            except IllegalPattern:  # it was read from a log that another broker wrote
                self._compiled[text] = None
        return self._compiled[text]

    def topics(self, profile: Profile) -> frozenset[str]:
        """What a member reads, whether it exists or not."""
        fitting = self.topics_of_pattern.get(profile.regex, NONE) if profile.regex else NONE
        return profile.topics | fitting if fitting else profile.topics

    def all(self) -> frozenset[str]:
        return frozenset(self._names).union(*self.topics_of_pattern.values())

    def __contains__(self, topic: str) -> bool:
        return topic in self._names or any(topic in topics for topics in self.topics_of_pattern.values())


def _decrement(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
