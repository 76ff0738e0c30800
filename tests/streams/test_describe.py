"""Topologies in words and pictures. Nothing here starts Spark."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ottla.streams import App, Json, Text, hopping, native, session, tumbling, within
from ottla.streams.describe import picture
from ottla.streams.drawing import LETTER, Box, Layout, Picture, svg

SVG = "{http://www.w3.org/2000/svg}"


def word_count() -> App:
    app = App("wordcount")
    (
        app.stream("lines", value=Text)
        .flat_map_values(str.split, value=Text)
        .map(lambda _, word: (word.lower(), word), key=Text, value=Text)
        .filter(lambda word: word != "the", name="drop-articles")
        .group_by_key()
        .count("CountStore")
        .map_values(str, value=Text)
        .to("counts")
    )
    return app


def two_joins() -> App:
    """Clicks with the user's profile and what they searched for just before."""
    app = App("activity")
    profiles = app.table("profiles", value=Json("name string"), store="Profiles")
    searches = app.stream("searches", value=Json("term string"))
    clicks = app.stream("clicks", value=Json("page string"))
    viewed = clicks.left_join(profiles, "struct(left.page, right.name)")
    viewed.left_join(searches, "struct(left.*, right.term)", within=within(before=1, after=0)).to("activity")
    return app


def two_queries() -> App:
    """Trades per 5 s window, and the best of each day: two stateful steps, so a topic between two queries."""
    app = App("trades")
    trades = app.stream("trades", value=Json("symbol string, price double"))
    windows = trades.group_by("value.symbol", key=Text).windowed_by(hopping(seconds=5, every=1, grace=0))
    stats = windows.aggregate(low="min(value.price)", n="count(*)", store="Stats")
    stats.to_stream().group_by("key.key", key=Text).aggregate("max(value.n)", store="Busiest").to("busiest")
    return app


def test_a_word_count_in_words() -> None:
    assert (
        word_count().describe()
        == """\
Topology of wordcount
  Query 0: CountStore
    Source: source-0 (topics [lines])
      --> flat-map-values-1
    Step: flat-map-values-1 (split)
      <-- source-0
      --> map-2
    Step: map-2 (lambda _, word: (word.lower(), word))
      <-- flat-map-values-1
      --> drop-articles
    Step: drop-articles (filter lambda word: word != 'the')
      <-- map-2
      --> CountStore
    State: CountStore (count), to topic wordcount-CountStore-changelog
      <-- drop-articles
      --> map-values-5
    Step: map-values-5 (str)
      <-- CountStore
      --> to-6
    Sink: to-6 (topic counts)
      <-- map-values-5
  Stores
    CountStore: topic wordcount-CountStore-changelog"""
    )


def test_joins_in_words() -> None:
    assert (
        two_joins().describe()
        == """\
Topology of activity
  Query 0: join-3
    Table: source-0 (topics [profiles])
      --> join-3
    Source: source-2 (topics [clicks])
      --> join-3
    State: join-3 (left join of stream and table)
      <-- source-2, source-0
      --> join-values-4
    Step: join-values-4 (struct(left.page, right.name)), to topic activity-join-values-4-repartition
      <-- join-3
  Query 1: join-5
    Source: source-1 (topics [searches])
      --> join-5
    Source: join-values-4 (topics [activity-join-values-4-repartition])
      --> join-5
    State: join-5 (left join of stream and stream, from 1 s before to 0 ms after)
      <-- join-values-4, source-1
      --> join-values-6
    Step: join-values-6 (struct(left.*, right.term))
      <-- join-5
      --> to-7
    Sink: to-7 (topic activity)
      <-- join-values-6
  Stores
    Profiles: topic profiles"""
    )


def test_queries_meet_in_topics_in_mermaid() -> None:
    assert (
        two_queries().describe("mermaid")
        == """\
flowchart TD
    n0[("trades")]
    n3[("trades-Stats-changelog")]
    n5[("trades-select-key-3-repartition")]
    n7[("trades-Busiest-changelog")]
    n8[("busiest")]
    subgraph q0["query 0: Stats"]
        n1["select-key-1<br/>value.symbol"]
        n2[["Stats<br/>low = min(value.price), n = count(*), hopping windows of 5 s every 1 s, grace 0 ms"]]
        n4["select-key-3<br/>key.key"]
    end
    subgraph q1["query 1: Busiest"]
        n6[["Busiest<br/>max(value.n)"]]
    end
    n0 --> n1
    n1 --> n2
    n2 --> n3
    n2 --> n4
    n4 --> n5
    n5 --> n6
    n6 --> n7
    n6 --> n8"""
    )


def test_signs_that_mean_something_to_mermaid_are_escaped() -> None:
    app = App("a")
    app.stream("in").filter("value < '#' or value = \"x\"").to("out")
    assert "\"filter-1<br/>value #lt; '#35;' or value = #quot;x#quot;\"" in app.describe("mermaid")


def test_functions_are_shown_as_they_are_written() -> None:
    app = App("a")
    lines = app.stream("in")
    pair = (lambda value: value + "1", lambda value: value + "2")
    lines.map_values(pair[0]).to("one")
    lines.map_values(pair[1]).to("two")
    lines.map_values(native(lambda value: value.substr(1, 2))).to("three")
    lines.map(("upper(key)", "lower(value)")).to("four")
    lines.map_values(lambda value: [value, value, value, value, value, value, value, value, value]).to("five")
    said = re.findall(r"Step: \S+ \((.*)\)$", app.describe(), re.MULTILINE)
    assert said == [
        "lambda value: value + '1'",
        "lambda value: value + '2'",
        "native lambda value: value.substr(1, 2)",
        "upper(key), lower(value)",
        "lambda value: [value, value, value, value, value, value, va…",
    ]


def test_every_kind_of_step_has_its_words() -> None:
    app = App("a")
    orders = app.stream(pattern="orders-.*", value=Json)
    places = app.global_table("places")
    placed = orders.join(places, lambda order, place: [order, place], key=lambda key, order: order["place"])
    orders.foreach(print)
    merged = orders.merge(placed).repartition(4, name="by-key")
    merged.group_by_key().windowed_by(session(minutes=30)).reduce(lambda a, b: a).to("sessions")
    merged.group_by_key().windowed_by(tumbling(minutes=1, grace=5)).final().count().to("minutes")
    merged.to_table("Newest").group_by(lambda key, value: value["shop"]).count("PerShop").to("shops")
    orders.to(lambda key, value: f"orders-of-{key}", key=Text)
    said = app.describe()
    for words in (
        "Source: source-0 (pattern orders-.*)",
        "(inner join with places by lambda key, order: order['place'])",
        "Sink: foreach-4 (print)",
        "sessions with gaps of 30 min, grace 24 h",
        "count, tumbling windows of 1 min, grace 5 s, final",
        "(rows by lambda key, value: value['shop'])",
        "(topic by lambda key, value: f'orders-of-{key}')",
        "to topic a-by-key-repartition",
        "Newest: topic a-Newest-changelog",
    ):
        assert words in said, said
    for form in ("mermaid", "svg"):
        assert "places" in app.describe(form)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [word_count, two_joins, two_queries])
def test_a_picture_has_every_box_with_room_for_its_words_and_none_on_another(make) -> None:
    app = make()
    root = ElementTree.fromstring(app.describe("svg"))
    total = (float(root.get("width", 0)), float(root.get("height", 0)))
    drawn = picture(app.plan(), app.topology)
    boxes = []
    for group in root.iter(f"{SVG}g"):
        (rect,) = group.findall(f"{SVG}rect")
        left, top, width, height = (float(rect.get(name, 0)) for name in ("x", "y", "width", "height"))
        boxes.append((left, top, left + width, top + height))
        lines = [text for text in group.findall(f"{SVG}text") if text.get("font-size") is None]
        assert lines
        for line in lines:
            assert len(line.text or "") * LETTER <= width
            assert top < float(line.get("y", 0)) < top + height
    assert len(boxes) == len(drawn.boxes)
    assert all(l >= 0 and t >= 0 and r <= total[0] and b <= total[1] for l, t, r, b in boxes)  # noqa: E741
    for number, one in enumerate(boxes):
        for other in boxes[number + 1 :]:
            apart = one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
            assert apart, (one, other)
    assert len(list(root.iter(f"{SVG}path"))) == len(drawn.arrows) + 1  # and the arrow's head


def test_arrows_go_down_and_cross_as_seldom_as_they_must() -> None:
    drawn = Picture()
    for name in "abcdef":
        drawn.box(Box(name, "step", name))
    for start, end in ("af", "be", "cd", "ab"):
        drawn.arrow(start, end)
    layout = Layout(drawn)
    assert all(way[0][1] < way[-1][1] for way in layout.ways())
    assert layout._crossings() == 0
    ends = {name: layout.place(name) for name in "abcdef"}
    assert ends["c"][1] == ends["d"][1] - (ends["b"][1] - ends["a"][1])  # right above its reader


def test_an_arrow_over_several_layers_goes_around_what_is_between() -> None:
    drawn = Picture()
    for name in ("a", "b", "c"):
        drawn.box(Box(name, "step", name, "wide " * 6))
    for pair in (("a", "b"), ("b", "c"), ("a", "c")):
        drawn.arrow(*pair)
    layout = Layout(drawn)
    (long,) = [way for way in layout.ways() if len(way) == 3]
    x, _ = layout.place("b")
    assert abs(long[1][0] - x) > drawn.boxes["b"].width / 2


def test_long_words_are_broken_and_too_many_are_cut() -> None:
    box = Box("x", "step", "a" * 100, "b " * 300)
    assert all(len(line) <= 40 for line in box.lines())
    assert box.lines()[-1].endswith("…")
    drawn = Picture()
    drawn.box(Box("x", "topic", "<&>"))
    assert "&lt;&amp;&gt;" in svg(drawn)


def test_nothing_of_spark_is_started(tmp_path: Path) -> None:
    from pyspark import SparkContext

    before = SparkContext._active_spark_context
    word_count().describe("svg")
    assert SparkContext._active_spark_context is before
