"""The records between two steps, as a DataFrame and the serdes of its `key` and `value`.

Python steps are not applied at once but wait, so that consecutive ones run as a single stage over Arrow batches; any
native step, stateful step or end makes them run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.pipelines.serdes import Serde
from ottla.streams.steps import Step
from ottla.streams.types import convert

ORIGIN = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Frame:
    df: DataFrame
    key: Serde
    value: Serde
    waiting: tuple[Step, ...] = ()  # Python steps that have not run yet
    became: tuple[Serde, Serde] | None = None  # key and value after them
    signed: bool = False  # `sign` says whether a row joins (1) or leaves (-1) its group

    @property
    def key_after(self) -> Serde:
        return self.became[0] if self.became else self.key

    @property
    def value_after(self) -> Serde:
        return self.became[1] if self.became else self.value

    def then(self, step: Step, key: Serde, value: Serde) -> Frame:
        return replace(self, waiting=(*self.waiting, step), became=(key, value))

    def to(self, key: Serde, value: Serde) -> Frame:
        """The frame with key and value as columns of these serdes. No step must wait."""
        made = {
            "key": convert(F.col("key"), self.key, key),
            "value": convert(F.col("value"), self.value, value),
        }
        same = (self.key, self.value) == (key, value)
        return self if same else replace(self, df=self.df.withColumns(made), key=key, value=value)
