"""Examples that look at one record at a time, run as they are; and those that count in windows."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

from ottla.pipelines.serdes import WindowedKey
from ottla.streams.testing import Driver
from support.streams_examples import example

Streams = Callable[..., Driver]
MINUTE = 60_000


def test_errors_go_to_the_topic_that_somebody_watches(ottla_streams: Streams) -> None:
    driver = ottla_streams(example("log_routing").app)
    for line in ("12:00 INFO up", "12:01 ERROR down", "12:02 WARN hm"):
        driver.send("logs", line)
    assert driver.read("logs-high-priority") == [(None, "12:01 ERROR down")]
    assert driver.read("logs-low-priority") == [(None, "12:00 INFO up"), (None, "12:02 WARN hm")]


def test_tweets_with_more_than_ten_likes_or_replies_are_kept(ottla_streams: Streams) -> None:
    driver = ottla_streams(example("tweets_filter").app)
    for user, likes, replies in (("a", 10, 10), ("b", 11, 0), ("c", 0, 11), ("d", 0, 0)):
        driver.send("twitter_tweets", {"user": user, "text": "hi", "likes": likes, "replies": replies})
    kept = [value["user"] for _, value in driver.read("important_tweets")]
    assert kept == ["b", "c"]


def test_hashtags_are_counted_by_the_minute_and_the_trends_come_when_it_is_over(ottla_streams: Streams) -> None:
    driver = ottla_streams(example("hashtags").app)
    texts = ["#spark and #kafka", "#Spark again", "no tags", "#ottla #spark #kafka", "#go"]
    for number, text in enumerate(texts):
        driver.send("twitter_tweets", {"user": "u", "text": text}, timestamp=MINUTE + number)
    counts = {key.key: value for key, value in driver.read("hashtag_counts")}
    assert counts == {"spark": 3, "kafka": 2, "ottla": 1, "go": 1}
    driver.send("twitter_tweets", {"user": "u", "text": "#later"}, timestamp=5 * MINUTE)
    assert driver.read("hashtag_trends")[-1] == ("1970-01-01 00:01", ["spark", "kafka", "go"])
    start = datetime.fromtimestamp(60, UTC)
    assert driver.store("HashtagCounts").get("spark", start) == 3


def test_a_late_reading_changes_its_window_and_one_that_is_too_late_is_put_aside(ottla_streams: Streams) -> None:
    driver = ottla_streams(example("sensors").app)

    def reading(at: str, celsius: float) -> None:
        driver.send("sensor_readings", {"at": datetime.fromisoformat(at), "celsius": celsius}, key="oven")

    def window(start: str, end: str) -> WindowedKey:
        return WindowedKey("oven", *(datetime.fromisoformat(f"2024-05-01T{time}:00+00:00") for time in (start, end)))

    reading("2024-05-01T12:00:00Z", 100)
    reading("2024-05-01T12:04:59Z", 110)
    reading("2024-05-01T14:00:00Z", 90)
    assert sorted(driver.read("sensor_averages")) == [
        (window("12:00", "12:05"), {"average": 105.0, "readings": 2}),
        (window("14:00", "14:05"), {"average": 90.0, "readings": 1}),
    ]
    reading("2024-05-01T12:02:00Z", 120)  # two hours late
    assert driver.read("sensor_averages") == [(window("12:00", "12:05"), {"average": 110.0, "readings": 3})]
    reading("2024-04-10T12:00:00Z", 1)  # three weeks late
    assert driver.read("sensor_averages") == []
    (late,) = driver.records("sensor_readings_too_late")
    assert json.loads(late.value)["celsius"] == 1
    assert driver.store("Averages").get("oven", window("12:00", "12:05").start) == {"average": 110.0, "readings": 3}


def test_json_becomes_avro_and_what_does_not_fit_is_put_aside(ottla_streams: Streams) -> None:
    driver = ottla_streams(example("json_to_avro").app)
    driver.send("customers_json", b'{"id": 7, "name": "Ann"}', key="7")
    driver.send("customers_json", b'{"id": "seven"}', key="8")
    (record,) = driver.records("customers_avro")
    assert record.value == {"id": 7, "name": "Ann"}
    (letter,) = driver.records("customers_that_do_not_fit")
    assert b"id" in (letter.headers["ottla.error.reason"] or b"")


def test_large_payments_and_large_sums_are_alerted(ottla_streams: Streams) -> None:
    driver = ottla_streams(example("fraud_alert").app)
    for card, dollars, at in (("a", 12_000, 1_000), ("b", 6_000, 2_000), ("b", 5_000, 3_000), ("c", 9_000, 4_000)):
        driver.send("payments", {"card": card, "dollars": dollars}, timestamp=at)
    assert sorted(driver.read("alerts")) == [
        ("a", "12000 dollars within an hour"),
        ("a", "a payment of 12000 dollars"),
        ("b", "11000 dollars within an hour"),
    ]
