import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.config.listeners import Listener

MAP = "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,SECURE:SASL_SSL"


def make(**properties: str) -> BrokerConfig:
    texts = {"listener.security.protocol.map": MAP}
    return BrokerConfig.from_properties(texts | {key.replace("_", "."): text for key, text in properties.items()})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT://:9092", [("PLAINTEXT", "", 9092)]),
        ("plaintext://localhost:0", [("PLAINTEXT", "localhost", 0)]),
        ("PLAINTEXT://:9092, INTERNAL://0.0.0.0:9093", [("PLAINTEXT", "", 9092), ("INTERNAL", "0.0.0.0", 9093)]),
        ("PLAINTEXT://[::1]:9092", [("PLAINTEXT", "::1", 9092)]),
        (
            "PLAINTEXT://[::1]:9092,INTERNAL://127.0.0.1:9092",
            [("PLAINTEXT", "::1", 9092), ("INTERNAL", "127.0.0.1", 9092)],
        ),
        ("PLAINTEXT://:0,INTERNAL://:0", [("PLAINTEXT", "", 0), ("INTERNAL", "", 0)]),
    ],
)
def test_listeners_are_read(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert [listener[:3] for listener in make(listeners=text).endpoints] == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "at least one listener"),
        ("localhost:9092", "NAME://HOST:PORT"),
        ("PLAINTEXT://localhost", "NAME://HOST:PORT"),
        ("PLAINTEXT://localhost:70000", "NAME://HOST:PORT"),
        ("PLAINTEXT://localhost:http", "NAME://HOST:PORT"),
        ("PLAINTEXT://::1:9092", "in brackets"),
        ("PLAINTEXT://a/b:9092", "NAME://HOST:PORT"),
        ("PLAINTEXT://:9092,", "NAME://HOST:PORT"),
        ("PLAINTEXT://:1,PLAINTEXT://:2", "PLAINTEXT is given twice"),
        ("PLAINTEXT://:1,INTERNAL://:1", "port 1 is given to PLAINTEXT and to INTERNAL"),
        ("OTHER://:1", "OTHER has no protocol in listener.security.protocol.map"),
        ("SECURE://:1", "SECURE speaks SASL_SSL; only PLAINTEXT is served"),
    ],
)
def test_listeners_that_cannot_be_served_are_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match="listeners") as caught:
        make(listeners=text)
    assert why in str(caught.value)


def test_what_is_advertised_is_kept_by_listener_name() -> None:
    config = make(listeners="PLAINTEXT://:1,INTERNAL://:2", advertised_listeners="INTERNAL://kafka.example:9093")
    assert config.advertised == {"INTERNAL": Listener("INTERNAL", "kafka.example", 9093, "PLAINTEXT")}
    assert make(listeners="PLAINTEXT://:1").advertised == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("INTERNAL://x:1", "not among the listeners (PLAINTEXT)"),
        ("PLAINTEXT://0.0.0.0:1", "clients cannot connect to PLAINTEXT://0.0.0.0:1"),
        ("PLAINTEXT://:1", "clients cannot connect"),
        ("PLAINTEXT://[::]:1", "clients cannot connect to PLAINTEXT://[::]:1"),
        ("PLAINTEXT://x:0", "clients cannot connect"),
    ],
)
def test_an_address_that_no_client_can_reach_is_not_advertised(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=r"advertised\.listeners") as caught:
        make(listeners="PLAINTEXT://:9092", advertised_listeners=text)
    assert why in str(caught.value)


@pytest.mark.parametrize("text", ["PLAINTEXT", "A:TLS", ":PLAINTEXT", "A:PLAINTEXT,A:SSL"])
def test_a_protocol_map_must_give_each_name_one_known_protocol(text: str) -> None:
    with pytest.raises(ConfigError, match=r"listener\.security\.protocol\.map"):
        BrokerConfig.from_properties({"listener.security.protocol.map": text})


def test_listener_keys_of_old_make_a_listener() -> None:
    config = BrokerConfig.from_properties({"port": "9093", "host.name": "::1", "advertised.host.name": "kafka.example"})
    assert config.endpoints == (Listener("PLAINTEXT", "::1", 9093, "PLAINTEXT"),)
    assert str(config.advertised["PLAINTEXT"]) == "PLAINTEXT://kafka.example:9092"


def test_listener_keys_of_old_yield_to_those_of_today_with_a_warning() -> None:
    config = BrokerConfig.from_properties({"port": "9093", "listeners": "PLAINTEXT://:9094"})
    assert [listener.port for listener in config.endpoints] == [9094]
    assert config.warnings == ["host.name and port have no effect in ottla: listeners is given"]
