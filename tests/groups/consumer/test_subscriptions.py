"""What members read by patterns."""

from __future__ import annotations

from ottla.groups.consumer.subscriptions import Matched, Subscriptions


def test_topics_that_came_or_went_while_a_pattern_was_tried_on_all_are_seen():
    matched = Matched.find("a.*", {"a-gone", "a-stays", "b-stays"})
    subscriptions = Subscriptions()
    subscriptions.match("a.*", ["a-stays", "b-stays", "a-new", "b-new"], matched)
    assert subscriptions.topics_of_pattern == {"a.*": {"a-stays", "a-new"}}
    assert subscriptions.topics_changed({"a-later"}, {"a-later"}) == ["a.*"]
    assert subscriptions.all() == {"a-stays", "a-new", "a-later"}
