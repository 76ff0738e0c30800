"""How a topology becomes queries."""

from __future__ import annotations

import pytest

from ottla.pipelines.errors import PipelineError
from ottla.streams.app import App
from ottla.streams.windows import tumbling, within


def queries(app: App) -> list[tuple[list[str], list[str], str | None]]:
    """Of each query: what it reads, what it writes, and how its outputs are fused."""
    plan = app.plan()

    def topic(node: object) -> str:
        return getattr(node, "topic", None) or plan.topic_of(node)  # type: ignore[arg-type]

    result = []
    for query in plan.queries:
        reads = sorted(",".join(getattr(n, "topics", ())) or plan.topic_of(n) for n in query.inputs())
        result.append((reads, [topic(node) for node in query.outputs], query.fused))
    return result


def test_steps_in_a_row_are_one_query() -> None:
    app = App("a")
    app.stream("in").map_values(str.upper).filter("value <> 'x'").to("out")
    assert queries(app) == [(["in"], ["out"], None)]


def test_an_application_that_writes_nothing_is_refused() -> None:
    app = App("a")
    app.stream("in").map_values(str.upper)
    with pytest.raises(PipelineError, match="writes nothing"):
        app.plan()


def test_a_count_with_a_store_writes_changelog_and_result_in_one_query() -> None:
    app = App("a")
    counts = app.stream("in").group_by_key().count("Counts")
    counts.map_values(str).to("out")
    assert queries(app) == [(["in"], ["a-Counts-changelog", "out"], "python")]


def test_native_branches_of_a_source_are_fused() -> None:
    app = App("a")
    split = app.stream("in").split(errors="value like 'ERROR%'")
    split["errors"].to("high")
    split["default"].to("low")
    assert queries(app) == [(["in"], ["high", "low"], "native")]


def test_branches_of_native_and_python_steps_read_a_source_each_for_itself() -> None:
    app = App("a")
    stream = app.stream("in")
    stream.filter("value > 'a'").to("one")
    stream.map_values(str.upper).to("two")
    assert queries(app) == [(["in"], ["one"], None), (["in"], ["two"], None)]


def test_branches_of_native_and_python_steps_share_a_state_through_its_topic() -> None:
    app = App("a")
    counts = app.stream("in").group_by_key().count("Counts")
    counts.filter("value > 1").to("one")
    counts.map_values(str).to("two")
    assert queries(app) == [
        (["in"], ["a-Counts-changelog"], None),
        (["a-Counts-changelog"], ["one"], None),
        (["a-Counts-changelog"], ["two"], None),
    ]


def test_between_two_stateful_steps_lies_a_topic() -> None:
    app = App("a")
    per_minute = app.stream("in").group_by_key().windowed_by(tumbling(minutes=1)).count(name="per-minute")
    again = per_minute.to_stream().map_values("value + 1", name="plus")
    again.group_by("key.key").aggregate("max(value)", name="most").to("out")
    first, second = queries(app)
    assert first[0] == ["in"]
    assert second == (first[1], ["out"], None)
    assert first[1][0].endswith("-repartition")


def test_a_join_of_a_stream_with_a_counted_table_reads_the_tables_changelog() -> None:
    app = App("a")
    table = app.stream("clicks").group_by_key().count("Clicks")
    app.stream("views").join(table, lambda view, clicks: f"{view} {clicks}").to("out")
    assert queries(app) == [
        (["clicks"], ["a-Clicks-changelog"], None),
        (["a-Clicks-changelog", "views"], ["out"], None),
    ]


def test_two_joins_in_a_row_are_two_queries() -> None:
    app = App("a")
    profiles = app.table("profiles")
    searches = app.stream("searches")
    views = app.stream("views").left_join(profiles, lambda view, profile: view)
    views.left_join(searches, lambda view, search: view, within=within(seconds=1)).to("out")
    first, second = queries(app)
    assert first[0] == ["profiles", "views"]
    assert second[0] == sorted(["searches", *first[1]])


def test_counted_streams_meet_in_a_merge_through_topics() -> None:
    app = App("a")
    one = app.stream("one").group_by_key().count(name="one-count").to_stream()
    two = app.stream("two").group_by_key().count(name="two-count").to_stream()
    one.merge(two).to("out")
    assert queries(app) == [
        (["one"], ["a-one-count-changelog"], None),
        (["two"], ["a-two-count-changelog"], None),
        (["a-one-count-changelog", "a-two-count-changelog"], ["out"], None),
    ]


def test_a_topic_on_the_way_makes_two_queries() -> None:
    app = App("a")
    app.stream("in").through("between").map_values(str.upper).to("out")
    assert queries(app) == [(["in"], ["between"], None), (["between"], ["out"], None)]


def test_a_grouped_table_passes_its_changes_through_a_topic() -> None:
    app = App("a")
    app.table("users").group_by("value").count("PerCountry").to("out")
    first, second = queries(app)
    assert first[0] == ["users"]
    assert second == (first[1], ["a-PerCountry-changelog", "out"], "native")


def test_the_fingerprint_of_a_query_changes_with_its_state_and_not_with_its_steps() -> None:
    def fingerprint(window: int, step: str) -> str:
        app = App("a")
        app.stream("in").map_values(step).group_by_key().windowed_by(tumbling(seconds=window)).count(name="n").to("out")
        plan = app.plan()
        return plan.fingerprint(plan.queries[0])

    assert fingerprint(1, "upper(value)") == fingerprint(1, "lower(value)")
    app = App("a")
    app.stream("in").group_by_key().aggregate("sum(value)", name="n").to("out")
    plan = app.plan()
    assert plan.fingerprint(plan.queries[0]) != fingerprint(1, "upper(value)")


def test_two_stores_of_one_name_are_refused() -> None:
    app = App("a")
    app.stream("in").group_by_key().count("Counts")
    with pytest.raises(PipelineError, match="'Counts'"):
        app.stream("other").group_by_key().count("Counts")
