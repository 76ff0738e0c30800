from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType

import pytest

from ottla.testing import BrokerProcess
from support.example_topics import Topic
from support.programs import EXAMPLES, Program


@pytest.fixture(scope="session")
def broker() -> Iterator[BrokerProcess]:
    """One broker for the examples that consume: groups are ready at once, and sessions may be short."""
    quick = {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "200",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }
    with BrokerProcess(overrides=quick) as broker:
        yield broker


@pytest.fixture
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An example's module, for the parts that can be tried without a broker."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return __import__(request.param)


@pytest.fixture
def topic(broker: BrokerProcess) -> Topic:
    return Topic(broker.bootstrap, 1)


@pytest.fixture
def start() -> Iterator[Callable[..., Program]]:
    """Starts programs that end with the test."""
    with ExitStack() as stack:
        yield lambda *words, **keywords: stack.enter_context(Program(*words, **keywords))
