"""Which topic names are legal, which collide; topic ids."""

from __future__ import annotations

import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller import names


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "__consumer_offsets", "...", "-", "x" * 249])
def test_a_legal_name_has_no_fault(name):
    assert names.why_illegal(name) is None


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "empty"),
        (".", "'.'"),
        ("..", "'..'"),
        ("x" * 250, "249"),
        ("a b", "characters"),
        ("a/b", "characters"),
        ("ä", "characters"),
        ("a\n", "characters"),
        ("٣", "characters"),
        ("a\0", "characters"),
    ],
)
def test_an_illegal_name_is_told_what_is_wrong(name, fault):
    assert fault in names.why_illegal(name)


@given(st.text(max_size=260))
def test_whatever_passes_is_a_safe_directory_name(name):
    if names.why_illegal(name) is None:
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
        assert name not in ("", ".", "..")
        assert len(name) <= 249


def test_names_that_differ_in_dot_and_underscore_only_share_a_key():
    assert names.collision_key("a.b_c") == names.collision_key("a_b.c")
    assert names.collision_key("a-b") != names.collision_key("a_b")
    assert not names.may_collide("a-b")


def test_ids_are_random_version_4_uuids_that_no_tool_takes_for_an_option():
    made = [names.new_id() for _ in range(2000)]
    assert len(set(made)) == 2000
    for raw in made:
        assert uuid.UUID(bytes=raw).version == 4
        assert not names.id_text(raw).startswith("-")


def test_reserved_ids_are_not_handed_out(monkeypatch):
    dash = base64.urlsafe_b64decode("-AAAAAAAAAAAAAAAAAAAAA==")
    throws = iter([dash, b"A" * 16])
    monkeypatch.setattr(names.os, "urandom", lambda count: next(throws))
    assert names.new_id()[:6] == b"A" * 6


@given(st.binary(min_size=16, max_size=16))
def test_the_text_of_an_id_is_22_characters_and_reads_back(raw):
    text = names.id_text(raw)
    assert len(text) == 22
    assert names.id_bytes(text) == raw


def test_text_of_another_length_is_no_id():
    with pytest.raises(ValueError, match="16 bytes"):
        names.id_bytes("abcd")
