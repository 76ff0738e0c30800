import io

import pytest

from ottla.cli.common.invocation import Misconfigured
from ottla.cli.console.readers import LineMessageReader, Record, Unreadable, reader


def records(text: bytes, **properties: str) -> list[Record]:
    lines = LineMessageReader(prompt=False)
    lines.configure({name.replace("_", "."): value for name, value in properties.items()})
    return list(lines.read_records(io.BytesIO(text)))


def test_each_line_is_a_value() -> None:
    assert records(b"a\n\nb\tc\r\n\xff") == [Record(b"a", None, []), Record(b"", None, []), *records(b"b\tc\n\xff")]
    assert records(b"b\tc\n\xff")[1].value == b"\xff"
    assert records(b"") == []


def test_a_key_is_taken_off_at_the_first_separator() -> None:
    assert [(one.key, one.value) for one in records(b"k\tv\tw\nk\t\n", parse_key="true")] == [
        (b"k", b"v\tw"),
        (b"k", b""),
    ]
    assert records(b"k, v", parse_key="TRUE", key_separator=", ")[0][:2] == (b"v", b"k")


def test_headers_stand_before_the_key() -> None:
    (found,) = records(b"a:1,b:2:3,\tk\tv", parse_key="true", parse_headers="true")
    assert found == Record(b"v", b"k", [("a", b"1"), ("b", b"2:3")])
    (found,) = records(b"a=1|k|v", parse_headers="true", headers_delimiter="|", headers_key_separator="=")
    assert found == Record(b"k|v", None, [("a", b"1")])


def test_the_null_marker_stands_for_null() -> None:
    (found,) = records(b"a:N\tN\tN", parse_key="true", parse_headers="true", null_marker="N")
    assert found == Record(None, None, [("a", None)])
    (found,) = records(b"N\tN\tN", parse_key="true", parse_headers="true", null_marker="N")
    assert found == Record(None, None, [])
    with pytest.raises(Unreadable, match="Header keys should not be equal to the null marker 'N'"):
        records(b"N:1\tv", parse_headers="true", null_marker="N")


@pytest.mark.parametrize(
    ("text", "properties", "told"),
    [
        (b"k\tv\nv\n", {"parse_key": "true"}, "No key separator found on line number 2: 'v'"),
        (b"v\n", {"parse_headers": "true"}, "No headers delimiter found on line number 1: 'v'"),
        (b"a\tv\n", {"parse_headers": "true"}, "No header key separator found in pair 'a' on line number 1"),
    ],
)
def test_a_line_without_its_separator_ends_it_unless_errors_are_ignored(
    text: bytes, properties: dict[str, str], told: str
) -> None:
    with pytest.raises(Unreadable, match=told):
        records(text, **properties)
    assert len(records(text, ignore_error="true", **properties)) == text.count(b"\n")


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"headers_delimiter": ","}, "headers.delimiter and headers.separator may not be equal"),
        ({"headers_separator": ":"}, "headers.separator and headers.key.separator may not be equal"),
        ({"null_marker": "\t"}, "null.marker and key.separator may not be equal"),
        ({"key_separator": ""}, "key.separator must not be empty"),
    ],
)
def test_separators_that_cannot_be_told_apart_are_refused(properties: dict[str, str], told: str) -> None:
    with pytest.raises(Misconfigured, match=told):
        records(b"", **properties)


def test_readers_go_by_any_package_and_others_must_be_readers() -> None:
    for name in ("kafka.tools.ConsoleProducer$LineMessageReader", "kafka.tools.LineMessageReader"):
        assert isinstance(reader(name, {"topic": "t"}), LineMessageReader)
    with pytest.raises(Misconfigured, match=r"io\.BytesIO: it has no read_records"):
        reader("io.BytesIO", {})
