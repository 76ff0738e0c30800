"""Clicks with what is known about them, by a join with a table and one with a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.testing import Driver
from support.streams_examples import example

BEGIN = 1_460_000_000_000
MATHIAS = {"name": "Mathias", "zipcode": "94301", "interests": ["surfing", "hiking"]}
ANNA = {"name": "Anna", "zipcode": "94302", "interests": ["ice skating", "music"]}
UNKNOWN = {"name": None, "zipcode": None, "interests": None}


def view(driver: Driver, user: int, ms: int, page: str) -> None:
    driver.send("page.views", {"user": user, "page": page}, key=user, timestamp=BEGIN + ms)


def search(driver: Driver, user: int, ms: int, terms: str) -> None:
    driver.send("searches", {"user": user, "terms": terms}, key=user, timestamp=BEGIN + ms)


def activity(driver: Driver) -> list[tuple[int, int, Any]]:
    """What came out since the last look, by user and time; the order of users among each other is not defined."""
    found = [(record.key, record.timestamp - BEGIN, record.value) for record in driver.records("user.activity")]
    return sorted(found, key=lambda one: (one[0], one[1], one[2]["search"] or ""))


def test_a_click_tells_who_clicked_and_what_they_had_searched(ottla_streams: Callable[..., Driver]) -> None:
    driver = ottla_streams(example("click_stream").app)
    driver.send("user.profiles", MATHIAS, key=1, timestamp=BEGIN - 1_000)
    driver.send("user.profiles", ANNA, key=2, timestamp=BEGIN - 1_000)
    driver.run()
    search(driver, 1, 0, "retro wetsuit")
    view(driver, 1, 1_000, "wetsuits/retro")
    search(driver, 1, 1_500, "surf board")  # after the click, and as near
    search(driver, 2, 0, "lights")
    view(driver, 2, 1_001, "bicycles/lights")  # a millisecond too far from the search
    view(driver, 99, 500, "shoes")  # nobody knows this user
    search(driver, 99, 400, "blue shoes")
    view(driver, 98, 600, "start")  # nor this one, who has not searched either
    wetsuit = {"user": 1, "page": "wetsuits/retro", **MATHIAS}
    assert activity(driver) == [
        (1, 1_000, wetsuit | {"search": "retro wetsuit"}),
        (1, 1_500, wetsuit | {"search": "surf board"}),
        (99, 500, {"user": 99, "page": "shoes", "search": "blue shoes", **UNKNOWN}),
    ]

    driver.send("user.profiles", ANNA | {"zipcode": "10001"}, key=2, timestamp=BEGIN + 5_000)
    driver.run()
    view(driver, 2, 60_000, "bicycles/bells")  # now the windows of the others are over
    assert activity(driver) == [
        (2, 1_001, {"user": 2, "page": "bicycles/lights", "search": None, **ANNA}),
        (98, 600, {"user": 98, "page": "start", "search": None, **UNKNOWN}),
    ]
    view(driver, 1, 120_000, "end")
    moved = ANNA | {"zipcode": "10001"}
    assert activity(driver) == [(2, 60_000, {"user": 2, "page": "bicycles/bells", "search": None, **moved})]
    assert driver.store("profile-store").get(2) == moved
