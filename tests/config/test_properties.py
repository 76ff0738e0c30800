import pytest

from ottla.config.properties import PropertiesError, parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("  a = b c ", {"a": "b c "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\t=\tb", {"a": "b"}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("# a=1\n! b=2\n\n   # c=3\nd=4", {"d": "4"}),
        ("a=x # not a comment", {"a": "x # not a comment"}),
        ("a=one,\\\n    two,\\\n\tthree\nb=1", {"a": "one,two,three", "b": "1"}),
        ("a=x\\\n# goes on\nb=1", {"a": "x# goes on", "b": "1"}),
        ("a=x\\\\\nb=1", {"a": "x\\", "b": "1"}),
        ("a=x\\", {"a": "x"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a\\=b\\ c\\:d=e", {"a=b c:d": "e"}),
        ("a=\\t\\n\\r\\f\\q\\#", {"a": "\t\n\r\fq#"}),
        ("a=\\u00e9\\u20AC\\ud83d\\ude00", {"a": "é€😀"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("", {}),
    ],
)
def test_a_file_is_read_by_javas_rules(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [("a=1\nb=\\u12", 2), ("a=\\uZZZZ", 1), ("\n\n=x", 3), ("a=1,\\\n2,\\\n3\nb=\\u", 4), ("a=\\ud83d", 1)],
)
def test_an_error_names_the_source_and_the_line(text: str, line: int) -> None:
    with pytest.raises(PropertiesError, match=f"server.properties, line {line}: ") as caught:
        parse_properties(text, "server.properties")
    assert caught.value.line == line


def test_files_in_utf8_and_in_latin1_are_both_read(tmp_path) -> None:
    file = tmp_path / "x.properties"
    file.write_bytes("\ufeffa=é".encode())
    assert read_properties(file) == {"a": "é"}
    file.write_bytes(b"a=\xe9")
    assert read_properties(file) == {"a": "é"}
