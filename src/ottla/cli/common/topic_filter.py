"""Which topics a pattern names, as Kafka's tools read one.

A pattern is a regular expression that must match a whole name; a comma in it stands for `|`, blanks and quotes around
it do not count. A plain name is its own pattern, in which `.` also matches any other character. Kafka's newer options
take an expression as it stands (`listed=False`), in which a comma is a comma.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ottla.cli.common.invocation import Failure

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})


class TopicFilter:
    def __init__(
        self, pattern: str, *, exclude_internal: bool = False, opposite: bool = False, listed: bool = True
    ) -> None:
        text = pattern.strip().replace(",", "|").replace(" ", "").strip("\"'") if listed else pattern
        try:
            self._matches = re.compile(text).fullmatch
        except re.error as error:
            raise Failure(f"{text} is an invalid regex: {error}") from None
        self._exclude_internal = exclude_internal
        self._opposite = opposite  # all topics but those that match

    def allows(self, topic: str) -> bool:
        if self._exclude_internal and topic in INTERNAL_TOPICS:
            return False
        return (self._matches(topic) is None) == self._opposite

    def among(self, topics: Iterable[str]) -> list[str]:
        return sorted(filter(self.allows, topics))
