"""What comes with the requests of members, and which versions brought what."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

UNKNOWN_MEMBER = ""
PROTOCOL_TYPES, ID_REQUIRED, SKIPS_ASSIGNMENT, BATCHED_LEAVES = 7, 4, 9, 3  # versions that brought them


class Client(NamedTuple):
    """Who sends a request, and with which version of it."""

    id: str
    host: str
    version: int


class Settings(Protocol):
    """What of the broker's configuration matters to a join."""

    group_initial_rebalance_delay_ms: int
    group_max_size: int


def join_error(code: ErrorCode, member_id: str, version: int) -> messages.JoinGroupResponse:
    name = None if version >= PROTOCOL_TYPES else ""
    return messages.JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=name)


def rebalance_timeout(body: messages.JoinGroupRequest, version: int) -> int:
    return body.rebalance_timeout_ms if version >= 1 else body.session_timeout_ms
