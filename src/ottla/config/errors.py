"""What can be wrong with a configuration. Each error is one line that names the key, the value and what is legal."""

from __future__ import annotations

MAX_SHOWN = 200


class ConfigError(Exception):
    """A configuration that cannot be used as it stands."""

    def __init__(self, key: str, value: str | None, legal: str) -> None:
        super().__init__(key, value, legal)
        self.key = key
        self.value = value
        self.legal = legal

    def __str__(self) -> str:
        shown = (
            f"{shortened(self.key)} without a value" if self.value is None else f"{self.key}={shortened(self.value)}"
        )
        return f"{shown} is illegal: {self.legal}"


class UnknownKey(ConfigError):
    """A key that no definition knows."""

    def __init__(self, key: str, value: str | None, nearest: str | None) -> None:
        super().__init__(key, value, f"did you mean {nearest}?" if nearest else "no such key")
        self.nearest = nearest

    def __str__(self) -> str:
        return f"unknown key {shortened(self.key)}" + (f" (did you mean {self.nearest}?)" if self.nearest else "")


def shortened(text: str) -> str:
    """Enough of it to know it by."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def nearest(key: str, known: list[str]) -> str | None:
    """The known key that reads most like this one."""
    import difflib  # only when somebody mistyped

    if len(key) > MAX_SHOWN:
        return None
    found = difflib.get_close_matches(key, known, n=1, cutoff=0.7)
    return found[0] if found else None
