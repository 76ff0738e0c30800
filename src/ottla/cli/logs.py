"""Logs on stderr, one line per event, as text or as JSON.

    2026-01-31T12:00:00.123Z INFO ottla.broker.server: ready        text
    {"time":"2026-…","level":"INFO","logger":"…","message":"…"}     json, with "exception" where there is one

Line ends inside a message are written as \\n: an event stays one line whatever a client put into a name.
"""

from __future__ import annotations

import logging
import sys
from time import gmtime, strftime

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


def set_up(form: str, level: str) -> None:
    """Sends all logging to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _time(record: logging.LogRecord) -> str:
    return f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(record.created))}.{int(record.msecs):03d}Z"


def _printable(text: str) -> str:
    return text.encode(errors="replace").decode()  # half of a surrogate pair has no UTF-8


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname} {record.name}: {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return _printable(line.replace("\r", "\\r").replace("\n", "\\n"))


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        import msgspec  # only where it is asked for

        event = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _printable(record.getMessage()),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(event).decode()
