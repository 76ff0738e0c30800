"""Patterns match as Python's do where both know them, and never take long."""

from __future__ import annotations

import contextlib
import re
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.patterns import IllegalPattern, Pattern

ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\W", r"\.", "-", "(?:)", r"[\w.-]", r"[^\s\d]"]
)


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: "(" + "|".join(parts) + ")"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "{0}"])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
    )


@given(st.recursive(ATOMS, combined, max_leaves=8), st.text("abc1-. ", max_size=8))
def test_a_pattern_matches_what_pythons_engine_matches(pattern: str, value: str) -> None:
    assert Pattern(pattern).matches(value) == bool(re.fullmatch(pattern, value, re.ASCII))


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        (r"apache-kafka-java", ["apache-kafka-java"], ["apache-kafka-jav", "apache-kafka-java2", ""]),
        (r"3\.8.*", ["3.8", "3.8.1"], ["3.9", "398"]),
        (r"10\.0\.\d{1,3}\.\d+", ["10.0.1.22"], ["10.0.1234.2", "10.1.1.1"]),
        (r"^client-[a-f0-9]{4}$", ["client-0af3"], ["client-0ag3", "client-0af"]),
        (r"(?i)Producer-\d", ["PRODUCER-1", "producer-2"], ["producer-x"]),
        (r"", [""], ["x"]),
        (r"a|b^|$", ["a", ""], ["b", "ab"]),
        (r"[a\]^-]+", ["a]^-"], ["b"]),
        (r".", ["ü", "\U0001f600"], ["\n", "ab"]),
        (r"(?i)straße", ["STRAßE"], ["strasse"]),
    ],
)
def test_patterns_of_clients_mean_what_they_say(pattern: str, fitting: list[str], others: list[str]) -> None:
    compiled = Pattern(pattern)
    assert [value for value in fitting + others if compiled.matches(value)] == fitting


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(a", "missing )"),
        ("a)", "unexpected )"),
        ("[a", "missing ]"),
        ("a\\", "trailing \\"),
        ("*a", "no argument for repetition"),
        ("a**", "bad repetition"),
        ("a{2,1}", "invalid repetition"),
        ("a{99999}", "invalid repetition"),
        (r"(a)\1", "invalid escape"),
        ("(?=a)", "invalid perl operator"),
        ("[z-a]", "invalid character class range"),
        ("(((a{99}){99}){99}){99}", "invalid repetition"),
        ("(a|b|[^x]*)*" * 2700, "too large"),
        ("\ud800", "surrogates"),
    ],
)
def test_what_is_no_pattern_is_refused_with_the_reason(pattern: str, words: str) -> None:
    with pytest.raises(IllegalPattern) as refusal:
        Pattern(pattern)
    assert words in str(refusal.value)


@given(st.text("ab()[]{}*+?|^$\\.,-1d&", max_size=20))
def test_any_text_is_a_pattern_or_is_refused(text: str) -> None:
    with contextlib.suppress(IllegalPattern):
        Pattern(text).matches("ab1")


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "(a*)*b",
        "(a|a)*b",
        "(.*)(.*)(.*)(.*)(.*)(.*)b",
        "(a?){80}a{80}",
        "((a*)*)*b",
        pytest.param("(" * 5000 + "a*" + ")" * 5000, id="thousands of groups"),
    ],
)
def test_a_hostile_pattern_takes_no_longer_than_others(pattern: str) -> None:
    before = process_time()
    compiled = Pattern(pattern)
    for length in range(200, 249):
        compiled.matches("a" * length)
    assert process_time() - before < 2  # Python's engine takes centuries
