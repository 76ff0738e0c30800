import pytest

from ottla.config.definitions import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    ConfigType,
    Configuration,
    Setting,
    at_least,
    setting,
)
from ottla.config.errors import ConfigError


def one(type: ConfigType) -> Setting:
    made = setting("some.key", type, None, None, "")
    assert isinstance(made, Setting)
    return made


@pytest.mark.parametrize(
    ("type", "text", "value", "shown"),
    [
        (BOOLEAN, " TRUE ", True, "true"),
        (BOOLEAN, "false", False, "false"),
        (STRING, " x ", "x", "x"),
        (INT, "+2147483647", 2147483647, "2147483647"),
        (SHORT, "-32768", -32768, "-32768"),
        (LONG, "9223372036854775807", 2**63 - 1, "9223372036854775807"),
        (DOUBLE, "0.5", 0.5, "0.5"),
        (DOUBLE, "1e7", 1e7, "1.0E7"),
        (DOUBLE, "0.0001", 0.0001, "1.0E-4"),
        (DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308, "1.7976931348623157E308"),
        (DOUBLE, "123456.5", 123456.5, "123456.5"),
        (LIST, "a , b,c", ["a", "b", "c"], "a,b,c"),
        (LIST, " ", [], ""),
        (PASSWORD, " s ", " s ", " s "),
    ],
)
def test_a_value_is_read_and_shown_as_kafka_does(type: ConfigType, text: str, value: object, shown: str) -> None:
    assert one(type).parse(text) == value
    assert one(type).show(value) == shown


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (BOOLEAN, "yes"),
        (BOOLEAN, ""),
        (INT, ""),
        (INT, "1.0"),
        (INT, "1_000"),
        (INT, "٣"),
        (INT, "+-1"),
        (INT, "0x10"),
        (INT, "2147483648"),
        (SHORT, "32768"),
        (LONG, "9223372036854775808"),
        (LONG, "9" * 5000),
        (DOUBLE, "nan"),
        (DOUBLE, "inf"),
        (DOUBLE, "1e999"),
        (DOUBLE, "1_0"),
        (DOUBLE, ""),
    ],
)
def test_a_text_that_is_no_value_of_the_type_is_refused(type: ConfigType, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        one(type).parse(text)
    assert (caught.value.key, caught.value.value) == ("some.key", text)
    assert one(type).legal_words in str(caught.value)


def test_a_secret_shows_in_no_message() -> None:
    class Secret(Configuration):
        word: str = setting("the.word", PASSWORD, "", at_least(0), "")

    assert "swordfish" not in repr(Secret(word="swordfish"))


def test_no_name_can_be_defined_twice() -> None:
    with pytest.raises(TypeError, match=r"a\.b is defined twice"):

        class Twice(Configuration):
            one: int = setting("a.b", INT, 0, None, "")
            two: int = setting("c.d", INT, 0, None, "", aliases=("a.b",))


def test_instances_share_no_list_and_know_their_settings() -> None:
    class Some(Configuration):
        words: list[str] = setting("the.words", LIST, ["a"], None, "")

    first, second = Some(), Some()
    first.words.append("b")
    assert second.value("the.words") == ["a"]
    assert first != second
    assert second.replace(words=["x"]).value("the.words") == ["x"]
    with pytest.raises(TypeError, match="no setting nothing"):
        Some(nothing=1)
