"""What holds for all tests: Hypothesis judges behaviour, never time (machines are slow when they are shared)."""

from __future__ import annotations

from hypothesis import settings

from support.spark import spark

__all__ = ["spark"]

settings.register_profile("ottla", deadline=None)
settings.load_profile("ottla")
