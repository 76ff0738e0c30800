"""`while running:` goes on until Ctrl-C or SIGTERM, and ends between two rounds; clean_shutdown.py shows how."""

import signal


class Running:
    def __init__(self) -> None:
        self._running = True
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, *_: object) -> None:
        self._running = False

    def __bool__(self) -> bool:
        return self._running
