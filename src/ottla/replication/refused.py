"""Why a partition does not do what a client asks."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode


class Refused(Exception):
    """A batch that is not written. `records` names single records that are at fault, by index (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, records: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.records = records
