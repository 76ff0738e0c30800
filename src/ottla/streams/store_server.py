"""Stores over HTTP, beside the driver: look-ups, metrics for Prometheus, health. Answers are JSON, errors too.

    GET /stores                                    what there is: name, kind, topic, rows, lag
    GET /stores/NAME/all?limit=                    all rows, in the order of their keys' bytes
    GET /stores/NAME/range?from=KEY&to=KEY&limit=  the rows of these keys, both included
    GET /stores/NAME/keys/KEY                      one row; with windows: all of the key's
    GET /stores/NAME/keys/KEY?start=TIME           the row of the window that starts then
    GET /stores/NAME/keys/KEY?from=TIME&to=TIME    the key's windows in this time (&limit=)
    GET /stores/NAME/windows?from=TIME&to=TIME     the windows of all keys in this time (&limit=)
    GET /metrics, GET /health

A row is {"key", "value", "timestamp"}, with windows also "start" and "end"; times are ms since 1970. Several are
{"rows": […], "more": true if the limit has cut them}. Bytes are base64. KEY is text, a number, true or false, bytes as
they are percent-encoded, or JSON, as the key's serde wants it; where that is any JSON, what is none is taken for a text
(word as "word"). TIME is ms, or ISO 8601, in UTC if it names no zone.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from pyspark.sql.types import BinaryType, BooleanType, FractionalType, IntegralType, StringType
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.serdes import Serde, Text
from ottla.streams.store_file import Row
from ottla.streams.stores import Moment, Store, StoreError

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LIMIT, MOST = 1000, 100_000  # rows in an answer
LARGEST = 1 << 63

LOG = logging.getLogger(__name__)


class BadRequest(Exception):
    pass


class StoreServer:
    """Serves from the moment that it is made. `http` is HOST:PORT or a port; 0 takes a free one, `address` tells which.

    `registry`: the metrics to serve, beside those of the stores. `ails`: why the application is not well, None: it is.
    """

    def __init__(
        self,
        stores: Mapping[str, Store],
        http: str | int = 0,
        *,
        registry: CollectorRegistry | None = None,
        ails: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._stores, self._ails = stores, ails
        self._registry = registry if registry is not None else CollectorRegistry()
        self._metrics = StoreMetrics(stores)
        self._socket = _listen(http)
        host, port = self._socket.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        config = uvicorn.Config(
            self._application(), log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=2
        )
        self._server = uvicorn.Server(config)
        self._registry.register(self._metrics)
        serve = lambda: self._server.run(sockets=[self._socket])  # noqa: E731
        self._thread = threading.Thread(target=serve, name="store server", daemon=True)
        self._thread.start()
        deadline = monotonic() + 30
        while not self._server.started:
            if not self._thread.is_alive() or monotonic() > deadline:
                raise PipelineError(f"the store server did not start on {self.address}")
            sleep(0.005)

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
        self._registry.unregister(self._metrics)

    def _application(self) -> Starlette:
        routes = [
            Route("/stores", self._list),
            Route("/stores/{name}/all", self._all),
            Route("/stores/{name}/range", self._range),
            Route("/stores/{name}/windows", self._windows),
            Route("/stores/{name}/keys/{key:path}", self._of_key),
            Route("/metrics", self._show_metrics),
            Route("/health", self._health),
        ]
        handlers: Mapping[Any, Any] = {
            HTTPException: _refuse,
            BadRequest: lambda request, error: _error(400, str(error)),
            StoreError: lambda request, error: _error(503, str(error)),
            Exception: _fail,
        }
        return Starlette(routes=routes, exception_handlers=handlers)

    async def _list(self, request: Request) -> Response:
        _parameters(request)
        return _json({"stores": await run_in_threadpool(lambda: [_about(one) for one in self._stores.values()])})

    async def _all(self, request: Request) -> Response:
        asked = _parameters(request, "limit")
        return await self._rows(self._store(request), asked)

    async def _range(self, request: Request) -> Response:
        store, asked = self._store(request), _parameters(request, "from", "to", "limit")
        ends = {name: key_of(store, asked[word]) for word, name in (("from", "first"), ("to", "last")) if word in asked}
        return await self._rows(store, asked, **ends)

    async def _windows(self, request: Request) -> Response:
        store, asked = self._store(request), _parameters(request, "from", "to", "limit")
        _with_windows(store, "windows")
        return await self._rows(store, asked, from_time=_time(asked, "from"), to_time=_time(asked, "to"))

    async def _of_key(self, request: Request) -> Response:
        store, asked = self._store(request), _parameters(request, "start", "from", "to", "limit")
        raw = unquote_to_bytes(request.scope["raw_path"].partition(b"/keys/")[2])
        key, start = key_of(store, raw), _time(asked, "start")
        if asked:
            _with_windows(store, *asked)
        if start is not None and len(asked) > 1:
            raise BadRequest("start names one window; from, to and limit are for several")
        if store.windowed is None or start is not None:
            for row in await run_in_threadpool(lambda: list(store.rows(key, start=start, limit=1))):
                return _json(_row(store, row))
        else:
            between = {"from_time": _time(asked, "from"), "to_time": _time(asked, "to")}
            found = await self._rows(store, asked, key, **between)
            if found.body != NONE:
                return found
        raise HTTPException(404, f"store {store.name} has nothing for key {raw.decode(errors='replace')!r}")

    async def _rows(self, store: Store, asked: Mapping[str, bytes], key: Any = None, **where: Any) -> Response:
        limit = _limit(asked)

        def read() -> Response:
            rows = [_row(store, row) for row in store.rows(key, **where, limit=limit + 1)]
            return _json({"rows": rows[:limit], "more": len(rows) > limit})

        return await run_in_threadpool(read)

    async def _show_metrics(self, request: Request) -> Response:
        page = await run_in_threadpool(generate_latest, self._registry)
        return Response(page, headers={"content-type": CONTENT_TYPE_LATEST})

    async def _health(self, request: Request) -> Response:
        ails = self._ails()
        troubles = {name: one.trouble for name, one in self._stores.items() if one.trouble}
        return _json({"status": "failed" if ails else "ok", "reason": ails, "stores": troubles}, 503 if ails else 200)

    def _store(self, request: Request) -> Store:
        name = request.path_params["name"]
        store = self._stores.get(name)
        if store is None:
            raise HTTPException(404, f"there is no store {name}; there is {', '.join(self._stores) or 'none'}")
        return store


class StoreMetrics(Collector):
    """Rows, lag and rejected records of each store, as they are when asked."""

    def __init__(self, stores: Mapping[str, Store]) -> None:
        self._stores = stores

    def collect(self) -> Iterable[Metric]:
        rows = GaugeMetricFamily("ottla_store_rows", "Rows in a store", labels=["store"])
        lag = GaugeMetricFamily("ottla_store_lag", "Offsets of the topic that are not in the store", labels=["store"])
        rejected = CounterMetricFamily("ottla_store_rejected", "Records that serdes could not read", labels=["store"])
        for name, store in self._stores.items():
            rows.add_metric([name], store.count())
            lag.add_metric([name], store.lag)
            rejected.add_metric([name], store.rejected)
        return [rows, lag, rejected]


def _listen(http: str | int) -> socket.socket:
    host, _, port = str(http).rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise PipelineError(f"{http!r} is no address to listen on: HOST:PORT or PORT")
    try:
        family = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, int(port)), family=family)
    except OSError as error:
        raise PipelineError(f"cannot listen on {host}:{port}: {error.strerror}; choose another address") from None


def _parameters(request: Request, *known: str) -> dict[str, bytes]:
    """What stands behind the question mark, each at most once, in its bytes."""
    pairs = parse_qsl(request.url.query, keep_blank_values=True, encoding="latin-1")
    found = {name: value.encode("latin-1") for name, value in pairs}
    unknown = [name for name in found if name not in known]
    if unknown:
        raise BadRequest(f"{unknown[0]} is not known here; {', '.join(known) or 'nothing'} is")
    if len(found) < len(pairs):
        raise BadRequest("a parameter is given twice")
    return found


def _limit(asked: Mapping[str, bytes]) -> int:
    given = asked.get("limit", b"%d" % LIMIT)
    if not given.isdigit() or not 1 <= int(given[:9]) <= MOST or len(given) > 9:
        raise BadRequest(f"limit is a number from 1 to {MOST}, not {given.decode(errors='replace')!r}")
    return int(given)


def _time(asked: Mapping[str, bytes], name: str) -> Moment | None:
    if name not in asked:
        return None
    text = asked[name].decode(errors="replace")
    try:
        time: Moment = int(text)
    except ValueError:
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise BadRequest(f"{name} is a time in ms or ISO 8601, not {text!r}") from None
    if isinstance(time, int) and not -LARGEST <= time < LARGEST:
        raise BadRequest(f"{name} is a time in ms, and {text} is too far away")
    return time


def key_of(store: Store, raw: bytes) -> Any:
    """What the key's serde wants, of the bytes that a request has."""
    serde: Serde = store.key
    if isinstance(serde.type, BinaryType):
        return raw
    try:
        value = _parsed(serde, raw.decode())
        serde.dumps(value)
    except ValueError as error:
        said = raw.decode(errors="replace")
        raise BadRequest(f"{said!r} is no key of store {store.name}, which are of {serde.name}: {error}") from None
    return value


def _parsed(serde: Serde, text: str) -> Any:
    kind = serde.type
    if serde == Text:
        return text
    if isinstance(kind, IntegralType):
        return int(text)
    if isinstance(kind, FractionalType):
        return float(text)
    if isinstance(kind, BooleanType):
        if text not in ("true", "false"):
            raise ValueError("true or false")
        return text == "true"
    try:
        return json.loads(text)
    except ValueError:
        if isinstance(kind, StringType):
            return text
        raise ValueError("JSON is wanted") from None


def _with_windows(store: Store, *words: str) -> None:
    if store.windowed is None:
        raise BadRequest(f"store {store.name} has no windows: {words[0]} is for stores that have")


def _about(store: Store) -> dict[str, Any]:
    return {
        "name": store.name,
        "kind": store.windowed or "table",
        "topic": store.topic,
        "rows": store.count(),
        "lag": store.lag,
        "rejected": store.rejected,
        "trouble": store.trouble,
    }


def _row(store: Store, row: Row) -> dict[str, Any]:
    window = {"start": row.start, "end": row.end} if store.windowed else {}
    key, value = store.key.loads(row.key), store.value.loads(row.value)
    return {"key": key, **window, "value": value, "timestamp": row.timestamp}


def _refuse(request: Request, error: HTTPException) -> Response:
    said = error.detail
    if error.status_code == 404 and said == "Not Found":
        said = f"{request.url.path} is not served; /stores, /metrics and /health are"
    return _error(error.status_code, said, error.headers)


def _fail(request: Request, error: Exception) -> Response:
    LOG.error("%s %s", request.method, request.url.path, exc_info=error)
    return _error(500, f"{type(error).__name__}: {error}")


def _error(status: int, said: str, headers: Mapping[str, str] | None = None) -> Response:
    return _json({"error": said}, status, headers)


def _json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    try:
        body = msgspec.json.encode(content, enc_hook=str)
    except (TypeError, UnicodeEncodeError, OverflowError):  # half of a surrogate pair, keys of odd types
        body = json.dumps(content, default=str, skipkeys=True).encode()
    return Response(body, status, headers, "application/json")


NONE = bytes(_json({"rows": [], "more": False}).body)
