"""The shoe shop: tables that say how things stand, and the stream that says how it came to that."""

from __future__ import annotations

from collections.abc import Callable

from ottla.streams.testing import Driver
from support.streams_examples import example

MORNING = 1_460_538_000_000  # 2016-04-13, 9:00

EVENTS = (
    {"event": "shipment", "shoes": ["red", "blue", "green"]},
    {"event": "sold", "shoes": ["blue"], "dollars": 100},
    {"event": "sold", "shoes": ["red"], "dollars": 80},
    {"event": "returned", "shoes": ["blue"], "dollars": -100, "reason": "too small"},
    {"event": "sold", "shoes": ["green"], "dollars": 90},
)


def test_tables_say_what_is_and_the_stream_what_happened(ottla_streams: Callable[..., Driver]) -> None:
    driver = ottla_streams(example("shoe_shop").app)
    driver.send("shop", EVENTS[0], timestamp=MORNING)
    assert sorted(driver.read("inventory")) == [("blue", "1"), ("green", "1"), ("red", "1")]
    for minute, event in enumerate(EVENTS[1:], 1):
        driver.send("shop", event, timestamp=MORNING + 60_000 * minute)
        driver.run()
    assert driver.read("inventory") == [("blue", "0"), ("red", "0"), ("blue", "1"), ("green", "0")]
    assert driver.read("cash") == [("till", dollars) for dollars in ("0", "100", "180", "80", "170")]
    assert dict(driver.store("inventory").all()) == {"blue": 1, "green": 0, "red": 0}
    assert dict(driver.store("cash").all()) == {"till": 170}

    assert driver.read("events-per-day")[-1] == ("2016-04-13", "5")  # so busy was the shop
    assert driver.read("reasons") == [("blue", "too small")]
