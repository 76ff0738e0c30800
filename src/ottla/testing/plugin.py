"""Fixtures for pytest: a broker of one's own, several, or one per session. Loaded in every run of pytest, so light."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla.streams.app import App
    from ottla.streams.testing import Driver
    from ottla.testing.process import BrokerProcess


@pytest.fixture
def ottla_broker_factory() -> Iterator[Callable[..., BrokerProcess]]:
    """Makes started brokers; takes what BrokerProcess takes. They end with the test."""
    from ottla.testing.process import BrokerProcess

    made: list[BrokerProcess] = []

    def make(*arguments: object, **options: object) -> BrokerProcess:
        broker = BrokerProcess(*arguments, **options)  # type: ignore[arg-type]
        made.append(broker)
        return broker.start()

    yield make
    _close(made)


@pytest.fixture
def ottla_broker(ottla_broker_factory: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A fresh broker for one test."""
    return ottla_broker_factory()


@pytest.fixture(scope="session")
def ottla_shared_broker() -> Iterator[BrokerProcess]:
    """One broker for all tests of the session; give topics names of their own."""
    from ottla.testing.process import BrokerProcess

    # tests write records of any age, and retention would take the old ones away
    broker = BrokerProcess(overrides={"log.retention.check.interval.ms": "86400000"})
    broker.start()
    yield broker
    _close([broker])


@pytest.fixture
def ottla_streams(ottla_shared_broker: BrokerProcess) -> Iterator[Callable[..., Driver]]:
    """Makes drivers of Streams applications, on the session's broker and one Spark session. They end with the test."""
    from ottla.streams.testing import Driver

    made: list[Driver] = []

    def make(app: App, **options: Any) -> Driver:
        made.append(Driver(app, ottla_shared_broker.bootstrap, **options))
        return made[-1]

    yield make
    for driver in made:
        driver.close()


def _close(brokers: list[BrokerProcess]) -> None:
    """Closes them all, then raises the first error; their logs are shown by pytest where a test failed."""
    errors = []
    for broker in brokers:
        sys.stderr.write(broker.stderr)
        try:
            broker.close()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
