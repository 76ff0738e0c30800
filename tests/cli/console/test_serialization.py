import sys
from pathlib import Path

import pytest

from ottla.cli.common.invocation import Misconfigured
from ottla.cli.console.serialization import Unserializable, decimal, deserializer, serializer


@pytest.mark.parametrize(
    ("name", "typed", "data"),
    [
        ("kafka.serializer.DefaultEncoder", b"\xff", b"\xff"),
        ("org.apache.kafka.common.serialization.StringSerializer", "é".encode(), "é".encode()),
        ("IntegerSerializer", b"-2", b"\xff\xff\xff\xfe"),
        ("LongSerializer", b" 7 ", b"\0\0\0\0\0\0\0\7"),
        ("DoubleSerializer", b"1.5", b"\x3f\xf8\0\0\0\0\0\0"),
        ("BooleanSerializer", b"True", b"\1"),
        ("UUIDSerializer", b"00000000000000000000000000000001", b"00000000-0000-0000-0000-000000000001"),
        ("VoidSerializer", b"x", None),
    ],
)
def test_what_is_typed_becomes_bytes_as_kafkas_serializers_make_them(name: str, typed: bytes, data: bytes) -> None:
    assert serializer(name, is_key=False, option="--value-serializer")("t", typed) == data


@pytest.mark.parametrize(
    ("name", "data", "shown"),
    [
        ("org.apache.kafka.common.serialization.LongDeserializer", b"\xff" * 8, b"-1"),
        ("kafka.serializer.StringDecoder", b"caf\xc3\xa9\xff", "café\ufffd".encode()),
        ("ByteArrayDeserializer", b"\xff", b"\xff"),
        ("BytesDeserializer", b"a\0\xff\\", b"a\\x00\\xFF\\x5C"),
        ("FloatDeserializer", b"\x40\x48\xf5\xc3", b"3.14"),
        ("BooleanDeserializer", b"\0", b"false"),
        ("ShortDeserializer", b"\1\0", b"256"),
    ],
)
def test_bytes_are_shown_as_javas_tostring_shows_them(name: str, data: bytes, shown: bytes) -> None:
    assert deserializer(name, is_key=False, option="value.deserializer")("t", data) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (-123.25, "-123.25"),
        (1e300, "1.0E300"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
    ],
)
def test_numbers_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert decimal(value) == text


@pytest.mark.parametrize(
    ("name", "typed", "told"),
    [
        ("IntegerSerializer", b"2147483648", "2147483648 does not fit into 4 bytes"),
        ("IntegerSerializer", b"x", "'x' is no whole number"),
        ("BooleanSerializer", b"1", "neither true nor false"),
    ],
)
def test_what_a_serializer_cannot_take_is_told(name: str, typed: bytes, told: str) -> None:
    with pytest.raises(Unserializable, match=f"{name}: .*{told}"):
        serializer(name, is_key=False, option="x")("t", typed)


def test_bytes_of_the_wrong_size_are_told() -> None:
    with pytest.raises(Unserializable, match="LongDeserializer: 3 bytes of data, and 8 are wanted"):
        deserializer("LongDeserializer", is_key=False, option="x")("t", b"abc")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_coders.py").write_text(
        "class Shout:\n"
        "    def configure(self, properties, is_key): self.end = properties.get('end', '') + ('K' if is_key else '')\n"
        "    def deserialize(self, topic, data): return topic + data.decode().upper() + self.end\n"
        "    def serialize(self, topic, data): return data[::-1]\n"
        "def twice(data): return data + data\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_coders", raising=False)
    return "own_coders"


def test_a_class_of_the_users_own_is_found_by_its_path(own: str) -> None:
    properties = {"key.deserializer.end": "!", "value.deserializer.end": "?"}
    code = deserializer(f"{own}.Shout", is_key=True, option="key.deserializer", properties=properties)
    assert code("t-", b"abc") == b"t-ABC!K"
    assert serializer(f"{own}:Shout", is_key=False, option="x")("t", b"abc") == b"cba"
    assert deserializer(f"{own}.twice", is_key=False, option="x")("t", b"abc") == b"abcabc"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("com.example.Avro", "neither one of DefaultDecoder, .* nor a Python class on PYTHONPATH"),
        ("Avro", "there are DefaultDecoder, "),
        ("own_coders.Nothing", "the Python module own_coders has no Nothing"),
    ],
)
def test_a_class_that_is_not_there_is_named(own: str, name: str, told: str) -> None:
    with pytest.raises(Misconfigured, match=told):
        deserializer(name, is_key=False, option="value.deserializer")
