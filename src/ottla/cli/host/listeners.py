"""The addresses that a broker tells its clients, which must be able to reach them (B CLU-05…CLU-08)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from ottla.cli.host.finding import ADVICE, OK, PROBLEM, Finding
from ottla.cli.host.view import Host
from ottla.config.broker import BrokerConfig

ADVISED = "a name that every client can resolve"


def check(host: Host, config: BrokerConfig) -> Iterator[Finding]:
    for endpoint in config.endpoints:
        listener = config.advertised.get(endpoint.name, endpoint)
        level, why = _judged(host, listener.host)
        change = "" if level == OK else f"advertised.listeners={listener.name}://HOST:{listener.port}  # in the file"
        yield Finding(level, "advertised listener", str(listener), ADVISED, why, change)


def _judged(host: Host, name: str) -> tuple[str, str]:
    if not name:  # bound to all interfaces, and nothing said of what to advertise
        return OK, "a client is told the address that it has reached"
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return _judged_name(host, name)
    if address.is_loopback:
        return ADVICE, "works for clients on this host only, and for one broker"
    if address.is_global:
        return ADVICE, "a public address often changes with a restart; a name can follow it"
    return OK, "reached by clients of the same network only"


def _judged_name(host: Host, name: str) -> tuple[str, str]:
    if name == "localhost" or name.endswith(".localhost"):
        return ADVICE, "works for clients on this host only, and for one broker"
    try:
        host.resolve(name)
    except (OSError, UnicodeError):
        return PROBLEM, "not even this host can resolve the name"
    return OK, "resolved here; clients have to resolve it, too"
