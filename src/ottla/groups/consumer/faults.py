"""Why a request to a consumer group is refused: an error of the protocol, and words for it, which are Kafka's."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode


class Fault(Exception):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
