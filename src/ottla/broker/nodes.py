"""The addresses that clients are told (B CLU-05..08; KIP-103).

A client learns brokers by the listener through which it asks. What a broker is reached by there:

1. what `advertised.listeners` says;
2. the host that the listener is bound to;
3. bound to every interface, and it is this broker: the address that the client itself has just reached.

A broker without that listener is left out: the client could not talk to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.config.listeners import ANY_ADDRESS

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.dispatch import Request

NO_NODE_ID = -1


class Endpoint(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None


NOWHERE = Endpoint(NO_NODE_ID, "", -1, None)


def reachable(broker: Broker, request: Request) -> list[Endpoint]:
    """The live brokers, as this client reaches them."""
    listener, own_id = request.listener, broker.config.node_id
    found = []
    for node in broker.image.brokers.values():
        if listener not in node.endpoints:
            continue
        host, port = node.endpoints[listener]
        if host in ANY_ADDRESS and node.id == own_id:
            host, port = request.local_address
        found.append(Endpoint(node.id, host, port, node.rack))
    return found
