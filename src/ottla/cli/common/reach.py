"""Where the brokers are and how a command talks to them.

    --bootstrap-server HOST:PORT,…   the brokers; not given: what OTTLA_BOOTSTRAP_SERVER says, or localhost:9092
    --broker-list                    the same, by its older name
    --zookeeper HOST:PORT/CHROOT     an ensemble in which the brokers stand under /brokers/ids (A3 T2, B ERR-14)
    --command-config FILE            settings of the client

Commands use confluent-kafka where it has the call, and `requests.Cluster` where it does not. Before librdkafka is asked
to connect, one plain connection is tried, so that a wrong address is told at once and in one line.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.common import requests
from ottla.cli.common.client_properties import for_librdkafka
from ottla.cli.common.invocation import Failure, Misconfigured
from ottla.config.properties import PropertiesError, read_properties

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient

DEFAULT_SERVER = "localhost:9092"
ENVIRONMENT = "OTTLA_BOOTSTRAP_SERVER"
CONNECT_SECONDS = 5.0
ZOOKEEPER_SECONDS = 5.0

F = TypeVar("F", bound=Callable[..., Any])


class Reach:
    """The brokers that a command works on, and the settings of its clients."""

    def __init__(
        self, servers: str, properties: Mapping[str, str] | None = None, *, through_zookeeper: bool = False
    ) -> None:
        self.servers = ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in requests.parse_servers(servers)
        )
        self.properties = dict(properties or {})
        self.through_zookeeper = through_zookeeper  # then a tool prints what it printed in ZooKeeper's time

    def admin(self) -> AdminClient:
        from_package = _confluent_kafka("admin")
        self.check()
        client: AdminClient = from_package.AdminClient(self._settings(), logger=_silent())
        return client

    def producer(self, properties: Mapping[str, str] | None = None, **callbacks: Any) -> Producer:
        """A producer; `properties` (Java's or librdkafka's names) go before those of the command's file."""
        package = _confluent_kafka()
        self.check()
        client: Producer = package.Producer({**self._settings(properties), **callbacks}, logger=_silent())
        return client

    def consumer(self, properties: Mapping[str, str] | None = None, **callbacks: Any) -> Consumer:
        package = _confluent_kafka()
        self.check()
        client: Consumer = package.Consumer({**self._settings(properties), **callbacks}, logger=_silent())
        return client

    def cluster(self, timeout: float = requests.TIMEOUT_SECONDS) -> requests.Cluster:
        """The brokers for requests of our own; PLAINTEXT only."""
        protocol = self.properties.get("security.protocol", "PLAINTEXT").upper()
        if protocol != "PLAINTEXT":
            raise Failure(f"this command speaks PLAINTEXT, and security.protocol is {protocol}")
        return requests.Cluster(self.servers, timeout)

    def check(self) -> None:
        """Failure at once where no server takes a connection."""
        refusals = []
        for host, port in requests.parse_servers(self.servers):
            try:
                socket.create_connection((host, port), CONNECT_SECONDS).close()
                return
            except (OSError, UnicodeError) as error:  # a name that IDNA does not allow
                refusals.append(f"{host}:{port}: {getattr(error, 'strerror', None) or error}")
        raise requests.Unreachable("no broker answers at " + "; ".join(refusals))

    def _settings(self, properties: Mapping[str, str] | None = None) -> dict[str, Any]:
        settings = for_librdkafka({**self.properties, **(properties or {})})
        return {"log_level": 0, **settings, "bootstrap.servers": self.servers}


def reaches(function: F) -> F:
    """Adds the options above; the command gets `reach`."""
    return click.option("--broker-list", "older_name", metavar="HOST:PORT,...", help="The same as --bootstrap-server.")(
        reaches_by_bootstrap(function)
    )


def reaches_by_bootstrap(function: F) -> F:
    """The same where --broker-list means something else."""

    @click.option("--bootstrap-server", "bootstrap_server", metavar="HOST:PORT,...", help="The brokers.")
    @click.option("--zookeeper", metavar="HOST:PORT/CHROOT", help="Find the brokers through a ZooKeeper ensemble.")
    @click.option("--command-config", metavar="FILE", help="A property file with settings of the client.")
    @wraps(function)
    def command(
        *arguments: Any,
        bootstrap_server: str | None,
        zookeeper: str | None,
        command_config: str | None,
        older_name: str | None = None,
        **options: Any,
    ) -> Any:
        properties = properties_of(command_config)
        return function(
            *arguments, reach=find(first_given(bootstrap_server, older_name), zookeeper, properties), **options
        )

    return command  # type: ignore[return-value]


def first_given(*values: str | None) -> str | None:
    """Of options that mean the same, the first that was given, even if it is empty."""
    return next((one for one in values if one is not None), None)


def find(servers: str | None, zookeeper: str | None = None, properties: Mapping[str, str] | None = None) -> Reach:
    """The brokers that the options name."""
    if servers == "" or zookeeper == "":  # a variable of a script that is not set: not the broker on this host
        raise click.UsageError("the address of the brokers is empty: HOST:PORT,… is wanted")
    settings = dict(properties or {})
    in_file = settings.pop("bootstrap.servers", None)
    if not servers and zookeeper:
        click.echo("Warning: --zookeeper is deprecated; use --bootstrap-server.", err=True)
        return Reach(servers_in_zookeeper(zookeeper), settings, through_zookeeper=True)
    return Reach(servers or in_file or os.environ.get(ENVIRONMENT) or DEFAULT_SERVER, settings)


def properties_of(*files: str | None) -> dict[str, str]:
    """What a property file of a client says, the first that is named; nothing where none is."""
    file = first_given(*files)
    if file is None:
        return {}
    try:
        return read_properties(file)
    except OSError as error:
        raise Misconfigured(f"cannot read {file}: {error.strerror}") from error
    except PropertiesError as error:
        raise Misconfigured(str(error)) from error


def servers_in_zookeeper(address: str) -> str:
    """The brokers that are registered in an ensemble, as a list of servers."""
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import KazooException, NoNodeError
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError:
        raise Failure("--zookeeper needs kazoo: pip install 'ottla[tools]'; or use --bootstrap-server") from None
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    if not any(_listens(one) for one in address.partition("/")[0].split(",")):
        raise Failure(_no_zookeeper(address))  # kazoo would try until its time is up
    client = KazooClient(address, timeout=ZOOKEEPER_SECONDS, read_only=True)
    try:
        client.start(ZOOKEEPER_SECONDS)
        nodes = [client.get(f"/brokers/ids/{one}")[0] for one in client.get_children("/brokers/ids")]
    except NoNodeError:
        nodes = []
    except (KazooTimeoutError, KazooException, OSError):
        raise Failure(_no_zookeeper(address)) from None
    finally:
        client.stop()
        client.close()
    found = [server for node in nodes if (server := _address(node))]
    if not found:
        raise Failure(f"no broker is registered in the ZooKeeper at {address}; use --bootstrap-server HOST:PORT")
    return ",".join(found)


def _listens(server: str) -> bool:
    host, _, port = server.strip().rpartition(":")
    try:
        socket.create_connection((host or port, int(port) if host else 2181), ZOOKEEPER_SECONDS).close()
        return True
    except (OSError, ValueError, OverflowError):  # ValueError: of int, and of IDNA
        return False


def _no_zookeeper(address: str) -> str:
    return f"no ZooKeeper answers at {address}; use --bootstrap-server HOST:PORT with the address of a broker"


def _address(node: bytes) -> str | None:
    """HOST:PORT of a broker's registration."""
    try:
        entry = json.loads(node)
        if entry.get("host"):
            return f"{entry['host']}:{entry['port']}"
        plain = [one for one in entry.get("endpoints", []) if one.startswith("PLAINTEXT://")]
        return plain[0].removeprefix("PLAINTEXT://") if plain else None
    except (ValueError, KeyError, AttributeError):
        return None


@contextmanager
def told_simply() -> Iterator[None]:
    """An error of a Kafka client becomes one line."""
    try:
        yield
    except Exception as error:
        package = sys.modules.get("confluent_kafka")
        if package is None or not isinstance(error, package.KafkaException):
            raise
        raise Failure(kafka_error(error)) from error


def broker_error(error: Exception) -> str | None:
    """What a KafkaException says, without its name, as Kafka's own tools show it; None of another exception."""
    package = sys.modules.get("confluent_kafka")
    if package is None or not isinstance(error, package.KafkaException):
        return None
    inner = error.args[0]
    return str(inner.str() or inner.name())


def kafka_error(error: Any) -> str:
    """What a KafkaException or KafkaError says, in words."""
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    if hasattr(inner, "str") and hasattr(inner, "name"):
        name, words = requests.error_name(inner.code()) or inner.name().lstrip("_"), " ".join(inner.str().split())
        return f"{name}: {words}" if words else str(name)
    return str(error)


def _confluent_kafka(module: str | None = None) -> Any:
    from importlib import import_module

    try:
        return import_module("confluent_kafka" + (f".{module}" if module else ""))
    except ImportError:
        raise Failure("this command needs confluent-kafka: pip install 'ottla[tools]'") from None


def _silent() -> logging.Logger:
    """librdkafka's own log lines do not reach the terminal; errors come back from its calls."""
    quiet = logging.getLogger("ottla.cli.librdkafka")
    quiet.propagate = False
    if not quiet.handlers:
        quiet.addHandler(logging.NullHandler())
    return quiet
