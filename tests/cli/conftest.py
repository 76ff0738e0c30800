from collections.abc import Iterator

import pytest

from ottla.testing.process import BrokerProcess


@pytest.fixture(scope="session")
def group_broker() -> Iterator[BrokerProcess]:
    """A broker for all tests that consume in groups: nobody waits for more members. Topics have names of their own."""
    quick = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    with BrokerProcess(overrides=quick) as broker:
        yield broker
