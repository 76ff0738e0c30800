"""The statistics of a stock exchange: windows of 5 seconds that begin every second."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ottla.streams.testing import Driver
from support.streams_examples import example

BEGIN = 1_460_000_000_000  # a full second

Statistics = dict[tuple[str, int], tuple[float, int, float]]  # by ticker and the window's start in seconds from BEGIN


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(BEGIN / 1000 + seconds, UTC)


def statistics(driver: Driver) -> Statistics:
    """What came out since the last look. Every key is there once, with exactly its fields."""
    found: Statistics = {}
    for key, value in driver.read("stockstats-output"):
        assert (key.keys(), value.keys()) == ({"ticker", "start"}, {"low", "trades", "average"})
        place = (key["ticker"], round(key["start"].timestamp() - BEGIN / 1000))
        assert place not in found
        found[place] = (value["low"], value["trades"], value["average"])
    return found


def trade(driver: Driver, ticker: str, ms: int, **fields: Any) -> None:
    driver.send("stocks", fields, key=ticker, timestamp=BEGIN + ms)


def test_a_trade_counts_in_the_five_windows_around_it(ottla_streams: Callable[..., Driver]) -> None:
    driver = ottla_streams(example("stock_statistics").app)
    trade(driver, "IBM", 500, ask=167.25, size=100)
    trade(driver, "IBM", 999, ask=166.75, size=10)
    trade(driver, "IBM", 2_000, ask=165.50, size=1)
    driver.send("stocks", b'{"ask": 55, "size": 5, "bid": 54.5}', key="MSFT", timestamp=BEGIN)  # bids are ignored
    assert statistics(driver) == {
        ("IBM", -4): (166.75, 2, 167.0),
        ("IBM", -3): (166.75, 2, 167.0),
        ("IBM", -2): (165.5, 3, 166.5),
        ("IBM", -1): (165.5, 3, 166.5),
        ("IBM", 0): (165.5, 3, 166.5),
        ("IBM", 1): (165.5, 1, 165.5),
        ("IBM", 2): (165.5, 1, 165.5),
        **{("MSFT", start): (55.0, 1, 55.0) for start in range(-4, 1)},
    }
    trade(driver, "MSFT", -3_000, ask=57.0, size=5)  # late, within the grace: windows change, and earlier ones appear
    assert statistics(driver) == {
        **{("MSFT", start): (57.0, 1, 57.0) for start in range(-7, -4)},
        **{("MSFT", start): (55.0, 2, 56.0) for start in range(-4, -2)},
    }
    store = driver.store("trade-stats-store")
    assert store.get("IBM", at(0)) == {"low": 165.5, "trades": 3, "average": 166.5}
    assert [key.start for key, _ in store.fetch("MSFT")] == [at(start) for start in range(-7, 1)]
