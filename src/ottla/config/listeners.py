"""Listeners: what `listeners`, `advertised.listeners` and `listener.security.protocol.map` say.

    listeners=PLAINTEXT://:9092,INTERNAL://[::1]:9093      NAME://HOST:PORT; no HOST = all interfaces, PORT 0 = any free
    listener.security.protocol.map=PLAINTEXT:PLAINTEXT,…   which protocol a NAME speaks
    advertised.listeners=PLAINTEXT://kafka.example:9092    what clients are told; where nothing is said, the address
                                                           that the client itself has reached (B CLU-05..08)

A name stands for one listener, a port for one listener, except that an IPv4 and an IPv6 address may share a port.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.config.errors import ConfigError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_MAP = ",".join(f"{name}:{name}" for name in PROTOCOLS)
ANY_ADDRESS = ("", "0.0.0.0", "::")


class Listener(NamedTuple):
    """One address that the broker binds, or that it advertises."""

    name: str
    host: str  # without brackets; empty for all interfaces
    port: int
    protocol: str

    def __str__(self) -> str:
        return f"{self.name}://{address(self.host, self.port)}"


def address(host: str, port: int) -> str:
    """HOST:PORT, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(key: str, text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT; an empty host stands for all interfaces."""
    found = _host_and_port(text)
    if found is None:
        raise ConfigError(key, text, "must be HOST:PORT (an IPv6 host in brackets)")
    return found


def _host_and_port(text: str) -> tuple[str, int] | None:
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if (
        not (colon and port.isascii() and port.isdigit() and int(port) <= 65535)
        or (":" in host and not bracketed)
        or any(character in host.strip("[]") for character in "/[]@ ")
    ):
        return None
    return host[1:-1] if bracketed else host, int(port)


def parse_protocol_map(text: str) -> dict[str, str]:
    """`listener.security.protocol.map` as a table; listener names are upper case."""
    key = "listener.security.protocol.map"
    table: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, colon, protocol = (piece.strip().upper() for piece in part.partition(":"))
        if not (name and colon) or protocol not in PROTOCOLS:
            raise ConfigError(key, text, f"must be NAME:PROTOCOL, … with PROTOCOL one of {', '.join(PROTOCOLS)}")
        if table.setdefault(name, protocol) != protocol:
            raise ConfigError(key, text, f"{name} is given two protocols")
    return table


def parse_listeners(entries: list[str], protocols: dict[str, str]) -> tuple[Listener, ...]:
    """`listeners`: what to bind."""
    key, text = "listeners", ",".join(entries)
    if not entries:
        raise ConfigError(key, text, "a broker needs at least one listener, as NAME://HOST:PORT")
    found = _parse(key, entries, protocols)
    for listener in found:
        if listener.protocol != "PLAINTEXT":
            raise ConfigError(key, text, f"{listener.name} speaks {listener.protocol}; only PLAINTEXT is served so far")
    for index, one in enumerate(found):
        for other in found[:index]:
            if one.port == other.port != 0 and not _two_families(one.host, other.host):
                raise ConfigError(key, text, f"port {one.port} is given to {other.name} and to {one.name}")
    return found


def parse_advertised(
    entries: list[str], listeners: tuple[Listener, ...], protocols: dict[str, str]
) -> dict[str, Listener]:
    """`advertised.listeners` by name; listeners that it leaves out are advertised as each client reaches them."""
    key, text = "advertised.listeners", ",".join(entries)
    names = [listener.name for listener in listeners]
    found = _parse(key, entries, protocols)
    for listener in found:
        if listener.name not in names:
            raise ConfigError(key, text, f"{listener.name} is not among the listeners ({', '.join(names)})")
        if listener.host in ANY_ADDRESS or listener.port == 0:
            raise ConfigError(key, text, f"clients cannot connect to {listener}: give a host and a port to reach it by")
    return {listener.name: listener for listener in found}


def _parse(key: str, entries: list[str], protocols: dict[str, str]) -> tuple[Listener, ...]:
    text = ",".join(entries)
    found: list[Listener] = []
    for entry in entries:
        name, separator, rest = entry.partition("://")
        name = name.upper()
        found_address = _host_and_port(rest)
        if not (name and separator) or found_address is None:
            raise ConfigError(key, text, f"{entry!r} must be NAME://HOST:PORT (an IPv6 host in brackets)")
        if name not in protocols:
            raise ConfigError(key, text, f"{name} has no protocol in listener.security.protocol.map")
        if any(listener.name == name for listener in found):
            raise ConfigError(key, text, f"the name {name} is given twice")
        found.append(Listener(name, *found_address, protocols[name]))
    return tuple(found)


def _two_families(one: str, other: str) -> bool:
    """Whether one is an IPv6 address and the other an IPv4 one."""

    def ipv4(host: str) -> bool:
        return host.count(".") == 3 and host.replace(".", "").isdigit()

    return (":" in one and ipv4(other)) or (":" in other and ipv4(one))
