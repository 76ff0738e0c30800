"""What holds for all tests: Hypothesis judges behaviour, never time (machines are slow when they are shared)."""

from __future__ import annotations

from hypothesis import settings

from support.spark import ottla_streams, spark, spark_can_start

__all__ = ["ottla_streams", "spark", "spark_can_start"]

settings.register_profile("ottla", deadline=None)
settings.load_profile("ottla")
