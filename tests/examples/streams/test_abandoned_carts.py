"""A processor with state and timers of its own for each key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.testing import Driver
from support.streams_examples import example

MORNING = 1_460_538_000_000  # 2016-04-13, 9:00


def test_a_cart_is_told_of_when_nothing_has_happened_for_half_an_hour(ottla_streams: Callable[..., Driver]) -> None:
    driver = ottla_streams(example("abandoned_carts").app)

    def event(minute: int, customer: str, action: str, item: str | None = None) -> None:
        driver.send("cart-events", {"action": action, "item": item}, key=customer, timestamp=MORNING + minute * 60_000)

    def told() -> list[tuple[float, str, Any, Any]]:
        records = driver.records("carts")
        times = [(record.timestamp - MORNING) / 60_000 for record in records]
        return sorted(
            (time, record.key, record.value["event"], record.value["items"]) for time, record in zip(times, records)
        )

    event(0, "ann", "add", "book")
    event(1, "ann", "add", "pen")
    event(2, "ann", "add", "pen")
    event(3, "bob", "add", "hat")
    event(4, "bob", "pay")
    event(5, "eve", "add", "tie")
    event(6, "eve", "remove", "tie")  # an empty cart is none
    event(7, "dan", "add", "cup")
    assert told() == [(4, "bob", "paid", {"hat": 1})]

    driver.restart()
    event(20, "dan", "add", "cup")  # dan's half hour begins again
    event(33, "zoe", "add", "bag")
    assert told() == [(32, "ann", "left behind", {"book": 1, "pen": 2})]
    event(34, "ann", "pay")  # too late: the cart is empty
    event(60, "zoe", "remove", "bag")
    assert told() == [(34, "ann", "paid", {}), (50, "dan", "left behind", {"cup": 2})]
