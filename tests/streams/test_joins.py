"""Tables and joins, through a real broker and Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.streams import App, Json, Long, Text, within
from ottla.streams.testing import Driver

Streams = Callable[..., Driver]


def both(left: object, right: object) -> str:
    return f"{left}+{right}"


def test_a_stream_meets_the_row_of_its_key_as_it_is_then(ottla_streams: Streams) -> None:
    app = App("joins")
    users = app.table("users", store="Users")
    app.stream("clicks").left_join(users, both).to("out")
    driver = ottla_streams(app)
    driver.send("clicks", "c1", key="ann")
    assert driver.read("out") == [("ann", "c1+None")]
    driver.send("users", "Ann", key="ann")
    driver.run()
    driver.send("clicks", "c2", key="ann")
    assert driver.read("out") == [("ann", "c2+Ann")]
    driver.send("users", None, key="ann")
    driver.run()
    driver.send("clicks", "c3", key="ann")
    assert driver.read("out") == [("ann", "c3+None")]
    assert driver.store("Users").get("ann") is None


def test_an_inner_join_drops_what_has_no_row(ottla_streams: Streams) -> None:
    app = App("joins")
    app.stream("clicks").join(app.table("users"), "concat(left, ' ', right)").to("out")
    driver = ottla_streams(app)
    driver.send("users", "Ann", key="ann")
    driver.run()
    driver.send("clicks", "c1", key="ann")
    driver.send("clicks", "c2", key="bob")
    assert driver.read("out") == [("ann", "c1 Ann")]


def test_streams_join_within_a_window(ottla_streams: Streams) -> None:
    app = App("joins")
    views, searches = app.stream("views"), app.stream("searches")
    views.join(searches, both, within=within(seconds=1)).to("out")
    driver = ottla_streams(app)
    driver.send("views", "v1", key="ann", timestamp=1_000)
    driver.send("searches", "s1", key="ann", timestamp=2_000)
    driver.send("searches", "s2", key="ann", timestamp=2_001)
    driver.send("searches", "s3", key="bob", timestamp=1_000)
    (record,) = driver.records("out")
    assert (record.key, record.value, record.timestamp) == ("ann", "v1+s1", 2_000)


def test_what_found_no_partner_comes_when_the_window_has_closed(ottla_streams: Streams) -> None:
    app = App("joins")
    views, searches = app.stream("views"), app.stream("searches")
    views.outer_join(searches, both, within=within(seconds=1, grace=1)).to("out")
    driver = ottla_streams(app)
    driver.send("views", "v1", key="ann", timestamp=1_000)
    driver.send("searches", "s1", key="bob", timestamp=1_500)
    assert driver.read("out") == []
    driver.send("views", "v2", key="eve", timestamp=60_000)
    assert sorted(driver.read("out")) == [("ann", "v1+None"), ("bob", "None+s1")]


def test_tables_join_and_a_deleted_row_leaves(ottla_streams: Streams) -> None:
    app = App("joins")
    names, ages = app.table("names"), app.table("ages", value=Long)
    names.join(ages, both, store="Joined").to("out")
    driver = ottla_streams(app)
    driver.send("names", "Ann", key="a")
    assert driver.read("out") == []
    driver.send("ages", 30, key="a")
    assert driver.read("out") == [("a", "Ann+30")]
    driver.send("ages", 31, key="a")
    assert driver.read("out") == [("a", "Ann+31")]
    assert driver.store("Joined").get("a") == "Ann+31"
    driver.send("names", None, key="a")
    assert driver.read("out") == [("a", None)]
    assert driver.store("Joined").get("a") is None


def test_a_global_table_is_joined_by_any_key(ottla_streams: Streams) -> None:
    app = App("joins")
    countries = app.global_table("countries", key=Text, value=Text)
    people = app.stream("people", value=Json("name string, country string"))
    joined = people.left_join(countries, lambda person, country: f"{person['name']} of {country}", key="value.country")
    joined.to("out", value=Text)
    driver = ottla_streams(app)
    driver.send("countries", "Norway", key="no")
    driver.send("people", {"name": "Ann", "country": "no"}, key="a")
    driver.send("people", {"name": "Bob", "country": "xx"}, key="b")
    assert sorted(driver.read("out")) == [("a", "Ann of Norway"), ("b", "Bob of None")]


def test_a_record_without_a_value_is_not_looked_up_and_one_without_a_key_may_be(ottla_streams: Streams) -> None:
    app = App("joins")
    countries, people = app.global_table("countries"), app.stream("people")
    people.join(countries, both, key="coalesce(value, key)").to("known")
    people.left_join(countries, both, key="nullif(value, 'nowhere')").to("all")
    driver = ottla_streams(app)
    driver.send("countries", "Norway", key="no")
    driver.flush()
    for key, value in (("a", "no"), ("no", None), (None, "no"), ("b", "nowhere")):
        driver.send("people", value, key=key)
    assert driver.read("known") == [("a", "no+Norway"), (None, "no+Norway")]
    assert driver.read("all") == [("a", "no+Norway"), (None, "no+Norway"), ("b", "nowhere+None")]


def test_keys_that_a_function_without_a_type_made_meet_those_of_topics(ottla_streams: Streams) -> None:
    app = App("joins")
    countries, names = app.global_table("countries"), app.table("names")
    people = app.stream("people")
    by_country = people.select_key(lambda value: value)
    people.join(countries, both, key=lambda value: value).to("looked-up")
    by_country.join(names, both).to("joined")
    by_country.merge(app.stream("more")).group_by_key().count().join(names, both).to("counts")
    driver = ottla_streams(app)
    driver.send("countries", "Norway", key="no")
    driver.send("names", "Norge", key="no")
    driver.run()
    driver.send("people", "no", key="a")
    driver.send("more", "x", key="no")
    assert driver.read("looked-up") == [("a", "no+Norway")]
    assert driver.read("joined") == [("no", "no+Norge")]
    assert driver.read("counts")[-1] == ("no", "2+Norge")


def test_records_without_a_key_are_in_no_table(ottla_streams: Streams) -> None:
    app = App("joins")
    app.table("rows").to("table")
    app.stream("in").to_table("Native").to("native")
    app.stream("in").map_values(str.upper, value=Text).to_table("Python").to("python")
    driver = ottla_streams(app)
    for topic in ("rows", "in"):
        driver.send(topic, "x")
        driver.send(topic, "x", key="a")
    assert driver.read("table") == driver.read("native") == [("a", "x")]
    assert driver.read("python") == [("a", "X")]


def test_a_table_filters_by_deleting(ottla_streams: Streams) -> None:
    app = App("joins")
    grown = app.table("ages", value=Long).filter("value >= 18", store="Grown")
    grown.to("out")
    driver = ottla_streams(app)
    driver.send("ages", 18, key="a")
    driver.send("ages", 17, key="b")
    assert sorted(driver.read("out")) == [("a", 18), ("b", None)]
    driver.send("ages", 3, key="a")
    assert driver.read("out") == [("a", None)]
    assert list(driver.store("Grown").all()) == []


def test_a_row_that_changes_leaves_its_old_group(ottla_streams: Streams) -> None:
    app = App("joins")
    users = app.table("users", value=Json("country string, age bigint"))
    users.group_by("value.country").count("PerCountry").to("out")
    driver = ottla_streams(app)
    driver.send("users", {"country": "no", "age": 1}, key="a")
    driver.send("users", {"country": "no", "age": 2}, key="b")
    assert dict(driver.store("PerCountry").all()) == {"no": 2}
    driver.send("users", {"country": "pe", "age": 1}, key="a")
    assert dict(driver.store("PerCountry").all()) == {"no": 1, "pe": 1}


def test_a_grouped_table_adds_and_subtracts_in_python(ottla_streams: Streams) -> None:
    app = App("joins")
    users = app.table("users", value=Json("country string, age bigint"))
    ages = users.group_by(lambda key, value: value["country"], key=Text)
    ages.aggregate(
        lambda: 0,
        lambda country, user, total: total + user["age"],
        lambda country, user, total: total - user["age"],
        "Ages",
        value=Long,
    ).to("out")
    driver = ottla_streams(app)
    driver.send("users", {"country": "no", "age": 10}, key="a")
    driver.send("users", {"country": "no", "age": 20}, key="b")
    driver.run()
    driver.send("users", {"country": "no", "age": 5}, key="a")
    assert driver.store("Ages").get("no") == 25


@pytest.mark.parametrize("key", ["value.country", lambda key, value: value["country"]], ids=["native", "python"])
@pytest.mark.parametrize("age", ["value.age", lambda key, value: value["age"]], ids=["native", "python"])
def test_a_table_is_grouped_with_another_value(ottla_streams: Streams, key: Any, age: Any) -> None:
    app = App("joins")
    users = app.table("users", value=Json("country string, age bigint"))
    ages = users.group_by(key, key=Text, values=age, value=Long)
    ages.reduce(lambda total, age: total + age, lambda total, age: total - age, "Ages").to("out")
    driver = ottla_streams(app)
    driver.send("users", {"country": "no", "age": 10}, key="a")
    driver.send("users", {"country": "no", "age": 20}, key="b")
    driver.run()
    driver.send("users", {"country": "pe", "age": 5}, key="a")
    driver.send("users", None, key="b")
    assert dict(driver.store("Ages").all()) == {"no": 0, "pe": 5}


def test_a_group_has_no_rows_without_a_value_and_nothing_is_taken_from_one_that_is_empty(
    ottla_streams: Streams,
) -> None:
    app = App("joins")
    grouped = app.table("users").group_by("left(value, 1)", values="nullif(substring(value, 2), '')", value=Text)
    grouped.count("Counts")
    grouped.aggregate(list, lambda key, value, all: [*all, value], lambda key, value, all: None, "Lists")
    driver = ottla_streams(app)
    for key, value in (("a", "n1"), ("b", "n"), ("c", "n3")):
        driver.send("users", value, key=key)
    assert dict(driver.store("Counts").all()) == {"n": 2}
    for key in ("a", "c", "b"):  # the first one empties it
        driver.send("users", None, key=key)
    assert dict(driver.store("Counts").all()) == {"n": 0}
    assert dict(driver.store("Lists").all()) == {}


def test_a_stream_becomes_a_table(ottla_streams: Streams) -> None:
    app = App("joins")
    newest = app.stream("in").map_values("upper(value)").to_table("Newest")
    app.stream("clicks").join(newest, both).to("out")
    driver = ottla_streams(app)
    driver.send("in", "x", key="a")
    driver.send("in", "y", key="a")
    assert driver.store("Newest").get("a") == "Y"
    driver.send("clicks", "c", key="a")
    assert driver.read("out") == [("a", "c+Y")]
