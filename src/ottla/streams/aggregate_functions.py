"""Aggregates that Spark's SQL has not, to be used where its own are: alone, or as one of several named ones.

aggregate(top_n("value", by="value.gain", n=10))
aggregate(best=top_n("value.symbol", by="value.gain", n=3), trades="count(*)")
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from ottla.pipelines.errors import PipelineError
from ottla.streams import operators
from ottla.streams.functions import Native


def top_n(value: str | Column, *, by: str | Column, n: int, lowest: bool = False) -> Native:
    """The values of the n records that are highest (or lowest) by an expression, best first.

    At a tie the lower value goes first, whatever the order of the records. What has nothing to be ordered by (null)
    does not count. No more than n values are kept per key. Each record counts for itself: where newer records of a
    thing are to replace its older ones, reduce them to one first.
    """
    for given in (value, by):
        if not isinstance(given, str | Column):
            raise PipelineError(f"top_n takes expressions or columns, not {given!r}")
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise PipelineError(f"top_n keeps n values, 1 or more, not {n!r}")
    return Native(Best(value, by, n, lowest))


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """What top_n() does: over a group, and over the list of a window's values."""

    value: str | Column
    by: str | Column
    n: int
    lowest: bool

    @property
    def __name__(self) -> str:
        return f"top_n({self.value}, by={self.by}, n={self.n}{', lowest' if self.lowest else ''})"

    def __call__(self) -> Column:
        value, by = (F.expr(part) if isinstance(part, str) else part for part in (self.value, self.by))
        return operators.top_n(value, by, self.n, lowest=self.lowest)

    def of_list(self, step: str) -> Column:
        """The same of the array `values`."""
        if not (isinstance(self.value, str) and isinstance(self.by, str)):
            raise PipelineError(f"{step}: with this window top_n takes expressions as text, not columns")
        ranked = f"transform(values, value -> struct(({self.by}) as rank, ({self.value}) as item))"
        first = "a.rank < b.rank" if self.lowest else "a.rank > b.rank"
        order = f"""(a, b) -> case
            when a.rank <> b.rank then if({first}, -1, 1)
            when a.item is null or b.item is null then int(b.item is null) - int(a.item is null)
            when a.item = b.item then 0
            else if(a.item < b.item, -1, 1) end"""
        best = f"slice(array_sort(filter({ranked}, one -> one.rank is not null), {order}), 1, {self.n})"
        return F.expr(f"transform({best}, one -> one.item)")
