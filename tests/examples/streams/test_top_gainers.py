"""The ten stocks that gained most in a day, in two phases."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ottla.streams.testing import Driver
from support.streams_examples import example


def trade(driver: Driver, symbol: str, day: int, hour: int, price: float, minute: int = 0) -> None:
    moment = datetime(2016, 4, day, hour, minute, tzinfo=UTC)
    driver.send("trades", {"price": price}, key=symbol, timestamp=round(moment.timestamp() * 1000))


def gainers(driver: Driver) -> dict[str, list[tuple[str, float]]]:
    """The newest top ten of each day that came out since the last look."""
    return {day: [tuple(one.values()) for one in best] for day, best in driver.read("top-gainers")}


def test_the_ten_best_of_a_day_come_when_it_is_over(ottla_streams: Callable[..., Driver]) -> None:
    driver = ottla_streams(example("top_gainers").app)
    for number in range(1, 13):
        symbol = f"S{number:02}"
        trade(driver, symbol, 13, 9, 100.0)
        trade(driver, symbol, 13, 12, 500.0)  # what is between the first and the last trade does not matter
        trade(driver, symbol, 13, 16, 100.0 + number)
    trade(driver, "TIE", 13, 16, 56.0)  # trades may come out of order, and two may have gained as much
    trade(driver, "TIE", 13, 9, 50.0)
    for symbol, first, last in (("LOSS", 10.0, 9.0), ("FREE", 0.0, 9.0), ("BACK", 3.0, 3.0)):
        trade(driver, symbol, 13, 9, first)
        trade(driver, symbol, 13, 16, last)
    assert gainers(driver) == {}

    for price in (200.0, 150.0, 201.0):  # three in the same millisecond: by their offsets
        trade(driver, "NEXT", 14, 0, price, minute=5)
    trade(driver, "LOSS", 14, 9, 9.0)
    best: list[tuple[str, Any]] = [("S12", 12.0), ("TIE", 12.0), *((f"S{n:02}", float(n)) for n in range(11, 3, -1))]
    assert gainers(driver) == {"2016-04-13": best}

    trade(driver, "NEXT", 15, 9, 1.0)
    assert gainers(driver) == {"2016-04-14": [("NEXT", 0.5)]}
    found = driver.store("top-gainers").all()
    assert {day: len(best) for day, best in found} == {"2016-04-13": 10, "2016-04-14": 1}
