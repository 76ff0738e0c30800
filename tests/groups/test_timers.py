"""Deadlines: they come in order, when they were last set for, once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.timers import NEVER, Timers


def test_a_timer_comes_at_its_time_and_once():
    timers = Timers()
    timers.set("a", "x", 10)
    assert list(timers.due(9)) == []
    assert list(timers.due(10)) == [("a", "x")]
    assert list(timers.due(100)) == []
    assert timers.next() == NEVER


def test_a_timer_that_is_moved_comes_at_the_new_time_only():
    timers = Timers()
    timers.set("a", "x", 10)
    timers.set("a", "x", 30)
    timers.set("a", "y", 20)
    timers.set("a", "y", 5)
    assert list(timers.due(10)) == [("a", "y")]
    assert timers.next() == 30
    assert list(timers.due(30)) == [("a", "x")]


def test_a_timer_that_is_cancelled_does_not_come():
    timers = Timers()
    timers.set("a", "x", 10)
    timers.cancel("a", "x")
    timers.cancel("a", "never set")
    assert timers.next() == NEVER
    timers.set("a", "x", 20)
    assert list(timers.due(15)) == []
    assert list(timers.due(20)) == [("a", "x")]


def test_moving_a_timer_again_and_again_keeps_one_entry():
    timers = Timers()
    for now in range(1000):
        timers.set("member", "session", now + 10_000)
    assert len(timers._heap) == 1


KEYS = st.sampled_from("abc")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 50)),
        st.tuples(st.just("cancel"), KEYS),
        st.tuples(st.just("due"), st.integers(0, 20)),
    ),
    max_size=40,
)


@given(STEPS)
def test_timers_are_those_of_a_plain_table(steps):
    timers, table, now = Timers(), {}, 0
    for step in steps:
        match step:
            case ("set", key, after):
                timers.set("o", key, now + after)
                table[key] = now + after
            case ("cancel", key):
                timers.cancel("o", key)
                table.pop(key, None)
            case ("due", passed):
                now += passed
                due = sorted(key for key, at in table.items() if at <= now)
                assert sorted(name for _, name in timers.due(now)) == due
                for key in due:
                    del table[key]
        assert timers.next() <= min(table.values(), default=NEVER)
