"""Processors with state and timers of their own, and aggregates by Python functions."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from ottla.pipelines.errors import PipelineError


class Processor:
    """What process() takes."""


def aggregate(*arguments: Any, **options: Any) -> DataFrame:
    raise PipelineError("Python aggregates are not there yet")


def process(*arguments: Any, **options: Any) -> DataFrame:
    raise PipelineError("processors are not there yet")
