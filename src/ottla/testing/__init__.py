"""A broker for tests: `BrokerProcess`, and pytest fixtures over it (docs/testing.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.process import BrokerFailed, BrokerProcess

__all__ = ["BrokerFailed", "BrokerProcess"]


def __getattr__(name: str) -> Any:
    # pytest imports this package in every run of every project that has ottla installed: keep it light
    if name in __all__:
        from ottla.testing import process

        return getattr(process, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
