"""Money moves between accounts while workers and the broker are killed and frozen: none is lost, none is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from support.bank import BROKER, Bank

SECONDS = 4.0  # of faults


def test_no_transaction_is_torn_lost_or_seen_too_early_while_everything_dies(
    ottla_broker_factory: Callable[..., Any], tmp_path: Path
) -> None:
    broker = ottla_broker_factory(overrides=BROKER)
    bank = Bank(broker, tmp_path, workers=3, seed=7)
    try:
        bank.tend()
        end = monotonic() + SECONDS
        while monotonic() < end:
            bank.order(chains=4, hops=3)
            bank.fault()
            bank.tend()
        bank.finish(60)
    finally:
        bank.close()
    anomalies, events = bank.judge()
    assert anomalies == [], bank.faults
    assert events["committed"] > 20
    assert "Traceback" not in broker.stderr
