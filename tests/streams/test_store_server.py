"""Stores over HTTP, from a real server, asked as any program would."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client import CollectorRegistry, Counter

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Bool, Bytes, Double, Json, Long, Serde, Text
from ottla.streams.store_server import StoreServer
from ottla.streams.stores import Store
from ottla.streams.types import Auto
from support.consoles import fresh
from support.prometheus import Page

TIME = 1_700_000_000_000
KEYS: dict[str, tuple[Serde, list[Any]]] = {
    "Texts": (Text, ["a", "b/c", "ü", ""]),
    "Longs": (Long, [1, -7]),
    "Doubles": (Double, [1.5]),
    "Bools": (Bool, [True]),
    "Bytes": (Bytes, [b"\x00\xff/"]),
    "Jsons": (Json, [{"id": 5}, "word"]),
    "Rows": (Json("id long"), [{"id": 5}]),
    "Autos": (Auto, ["word", 5, {"id": 5}]),
}


def windowed(key: str, start: int) -> bytes:
    return key.encode() + struct.pack(">q", start)


class Served:
    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.ails: str | None = None
        self.registry = CollectorRegistry()
        records: dict[str, list[tuple[bytes | None, str | bytes]]] = {
            name: [(serde.dumps(key), json.dumps({"at": number})) for number, key in enumerate(keys)]
            for name, (serde, keys) in KEYS.items()
        }
        records["Windows"] = [(windowed(key, start), str(start)) for key in "xy" for start in (0, 5000, 10_000)]
        records["Odd"] = [(b"big", "[12345678901234567890123]"), (b"half", r'"\ud800"'), (b"null", "null")]
        records["Reals"] = [(b"nan", struct.pack(">d", float("nan")))]
        topics = {name: fresh(name) for name in records}
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for done in admin.create_topics([NewTopic(one, 1, 1) for one in topics.values()]).values():
            done.result(30)
        producer = Producer({"bootstrap.servers": bootstrap})
        for name, wanted in records.items():
            for key, value in wanted:
                producer.produce(topics[name], value, key, timestamp=TIME)
        assert producer.flush(30) == 0
        where = {"bootstrap": bootstrap, "directory": directory}
        self.stores = {name: Store(name, topics[name], serde, Json, **where) for name, (serde, _) in KEYS.items()} | {
            "Windows": Store("Windows", topics["Windows"], Text, Json, "time", size_ms=5000, **where),
            "Odd": Store("Odd", topics["Odd"], Text, Json, **where),
            "Reals": Store("Reals", topics["Reals"], Text, Double, **where),
        }
        for store in self.stores.values():
            store.wait_until_current()
        self.server = StoreServer(self.stores, registry=self.registry, ails=lambda: self.ails)

    def get(self, path: str, method: str = "GET") -> tuple[int, Any]:
        """The status, and the JSON that it came with."""
        try:
            with urlopen(Request(self.server.url + path, method=method), timeout=30) as answer:
                status, kind, said = answer.status, answer.headers["content-type"], json.loads(answer.read())
        except HTTPError as error:
            status, kind, said = error.code, error.headers["content-type"], json.loads(error.read())
        assert kind == "application/json"
        return status, said.get("error", said)

    def keys(self, path: str) -> list[Any]:
        status, answer = self.get(path)
        assert status == 200, answer
        return [row["key"] for row in answer["rows"]]


@pytest.fixture(scope="module")
def served(ottla_shared_broker, tmp_path_factory) -> Iterator[Served]:
    served = Served(ottla_shared_broker.bootstrap, tmp_path_factory.mktemp("stores"))
    yield served
    served.server.stop()
    for store in served.stores.values():
        store.close()


def test_stores_are_listed_with_their_kind_topic_rows_and_lag(served):
    status, answer = served.get("/stores")
    assert status == 200
    listed = {one["name"]: one for one in answer["stores"]}
    assert listed.keys() == served.stores.keys()
    texts = served.stores["Texts"]
    shown = {
        "name": "Texts",
        "topic": texts.topic,
        "kind": "table",
        "rows": 4,
        "lag": 0,
        "rejected": 0,
        "trouble": None,
    }
    assert listed["Texts"] == shown
    assert listed["Windows"]["kind"] == "time"


@pytest.mark.parametrize(
    ("path", "key", "at"),
    [
        ("Texts/keys/a", "a", 0),
        ("Texts/keys/b/c", "b/c", 1),
        ("Texts/keys/b%2Fc", "b/c", 1),
        ("Texts/keys/" + quote("ü"), "ü", 2),
        ("Texts/keys/", "", 3),
        ("Longs/keys/1", 1, 0),
        ("Longs/keys/-7", -7, 1),
        ("Doubles/keys/1.5", 1.5, 0),
        ("Bools/keys/true", True, 0),
        ("Bytes/keys/%00%FF/", "AP8v", 0),
        ("Jsons/keys/" + quote('{"id": 5}'), {"id": 5}, 0),
        ("Jsons/keys/%22word%22", "word", 1),
        ("Jsons/keys/word", "word", 1),
        ("Autos/keys/word", "word", 0),
        ("Autos/keys/5", 5, 1),
        ("Autos/keys/" + quote('{"id": 5}'), {"id": 5}, 2),
        ("Rows/keys/" + quote('{"id": 5}'), {"id": 5}, 0),
    ],
)
def test_a_key_is_written_as_its_serde_wants_it(served, path, key, at):
    assert served.get(f"/stores/{path}") == (200, {"key": key, "value": {"at": at}, "timestamp": TIME})


def test_all_and_ranges_are_in_order_and_say_whether_the_limit_has_cut_them(served):
    assert served.keys("/stores/Texts/all") == ["", "a", "b/c", "ü"]
    status, answer = served.get("/stores/Texts/all?limit=2")
    assert (status, [row["key"] for row in answer["rows"]], answer["more"]) == (200, ["", "a"], True)
    assert served.get("/stores/Texts/all?limit=4")[1]["more"] is False
    assert served.keys("/stores/Texts/range?from=a&to=b/c") == ["a", "b/c"]
    assert served.keys("/stores/Texts/range?from=b") == ["b/c", "ü"]
    assert served.keys("/stores/Texts/range?to=a&limit=1") == [""]
    assert served.keys("/stores/Longs/range?from=0&to=5") == [1]
    assert served.keys("/stores/Bytes/range?from=%00%FE&to=%01") == ["AP8v"]
    assert served.get("/stores/Texts/range?from=x&to=b") == (200, {"rows": [], "more": False})


def test_windows_are_asked_for_by_key_and_time(served):
    row = {"key": "x", "start": 5000, "end": 10_000, "value": 5000, "timestamp": TIME}
    assert served.get("/stores/Windows/keys/x?start=5000") == (200, row)
    assert served.get("/stores/Windows/keys/x?start=1970-01-01T00:00:05Z") == (200, row)
    assert served.get("/stores/Windows/keys/x?from=1&to=1970-01-01T00:00:09") == (200, {"rows": [row], "more": False})
    assert [row["start"] for row in served.get("/stores/Windows/keys/x")[1]["rows"]] == [0, 5000, 10_000]
    assert served.get("/stores/Windows/keys/x?limit=1")[1]["more"] is True
    found = served.get("/stores/Windows/windows?from=5000")[1]["rows"]
    assert [(row["key"], row["start"]) for row in found] == [("x", 5000), ("x", 10_000), ("y", 5000), ("y", 10_000)]
    assert served.keys("/stores/Windows/range?from=y") == ["y"] * 3


def test_values_that_json_has_no_word_for_are_still_json(served):
    assert served.get("/stores/Reals/keys/nan")[1]["value"] is None
    assert served.get("/stores/Odd/keys/big")[1]["value"] == [12345678901234567890123]
    assert served.get("/stores/Odd/keys/half")[1]["value"] == "\ud800"
    assert served.get("/stores/Odd/keys/null")[1]["value"] is None


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/", 404, "/ is not served; /stores, /metrics and /health are"),
        ("/stores/Texts", 404, "/stores/Texts is not served"),
        ("/stores/None/all", 404, "there is no store None; there is Texts, Longs"),
        ("/stores/Texts/keys/nobody", 404, "store Texts has nothing for key 'nobody'"),
        ("/stores/Windows/keys/nobody", 404, "has nothing for key 'nobody'"),
        ("/stores/Windows/keys/x?start=1", 404, "has nothing for key 'x'"),
        ("/stores/Texts/all?limit=0", 400, "limit is a number from 1 to 100000, not '0'"),
        ("/stores/Texts/all?limit=-1", 400, "limit is"),
        ("/stores/Texts/all?limit=many", 400, "limit is"),
        ("/stores/Texts/all?limit=" + "9" * 5000, 400, "limit is"),
        ("/stores/Texts/all?limit=1&limit=2", 400, "given twice"),
        ("/stores/Texts/all?from=a", 400, "from is not known here; limit is"),
        ("/stores?limit=5", 400, "limit is not known here; nothing is"),
        ("/stores/Longs/keys/seven", 400, "'seven' is no key of store Longs, which are of long"),
        ("/stores/Longs/keys/99999999999999999999", 400, "is no key of store Longs"),
        ("/stores/Longs/range?from=x", 400, "'x' is no key of store Longs"),
        ("/stores/Bools/keys/yes", 400, "true or false"),
        ("/stores/Rows/keys/word", 400, "JSON is wanted"),
        ("/stores/Rows/keys/" + quote('{"id": "x"}'), 400, "is no key of store Rows"),
        ("/stores/Texts/keys/%FF", 400, "is no key of store Texts"),
        ("/stores/Texts/keys/a?start=5", 400, "store Texts has no windows: start is for stores that have"),
        ("/stores/Texts/windows", 400, "store Texts has no windows"),
        ("/stores/Windows/keys/x?start=soon", 400, "start is a time in ms or ISO 8601, not 'soon'"),
        ("/stores/Windows/keys/x?start=9223372036854775808", 400, "too far away"),
        ("/stores/Windows/keys/x?start=5&to=6", 400, "start names one window"),
        ("/stores/Windows/windows?from=", 400, "from is a time in ms"),
    ],
)
def test_what_cannot_be_answered_is_said_in_one_line_of_json(served, path, status, said):
    code, answer = served.get(path)
    assert code == status
    assert said in answer
    assert "\n" not in answer


def test_other_methods_are_refused(served):
    assert served.get("/stores", "POST")[0] == 405
    assert served.get("/stores/Texts/keys/a", "DELETE")[0] == 405


def test_metrics_are_those_of_the_registry_and_of_the_stores(served):
    Counter("ottla_batches", "Batches", registry=served.registry).inc(3)
    with urlopen(served.server.url + "/metrics") as answer:
        assert answer.headers["content-type"].startswith("text/plain")
        page = Page(answer.read().decode())
    assert page.of("ottla_batches_total")[0].value == 3
    assert page.of("ottla_store_rows", store="Windows")[0].value == 6
    assert page.of("ottla_store_lag", store="Windows")[0].value == 0
    assert page.of("ottla_store_rejected_total", store="Windows")[0].value == 0


def test_health_is_the_application_s(served, monkeypatch):
    assert served.get("/health") == (200, {"status": "ok", "reason": None, "stores": {}})
    monkeypatch.setattr(served, "ails", "query counts has failed")
    assert served.get("/health") == (503, {"status": "failed", "reason": "query counts has failed", "stores": {}})


def test_a_store_that_is_built_again_holds_up_nobody_else(served):
    follower = served.stores["Texts"]._follower
    with ThreadPoolExecutor() as others:
        follower.rebuilding = True
        asked = others.submit(served.get, "/stores/Texts/keys/a")
        try:
            assert served.get("/health")[0] == 200
            assert served.get("/stores/Longs/keys/1")[0] == 200
            assert not asked.done()
        finally:
            with follower._changed:
                follower.rebuilding = False
                follower._changed.notify_all()
        assert asked.result()[1]["key"] == "a"


def test_a_server_listens_where_it_is_told_and_stops_when_it_is_told():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PipelineError, match=f"cannot listen on 127.0.0.1:{port}: .*; choose another address"):
            StoreServer({}, port)
    server = StoreServer({}, f"127.0.0.1:{port}")
    assert server.address == f"127.0.0.1:{port}"
    with urlopen(server.url + "/stores") as answer:
        assert json.loads(answer.read()) == {"stores": []}
    server.stop()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


@pytest.mark.parametrize("http", ["", "localhost", "127.0.0.1:http", "127.0.0.1:99999", -1])
def test_an_address_that_is_none_is_refused(http):
    with pytest.raises(PipelineError, match="is no address to listen on: HOST:PORT or PORT"):
        StoreServer({}, http)
