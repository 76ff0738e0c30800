"""Groups of real clients: they share, are killed, frozen and stopped, and every record is read at least once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest

from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record
from ottla.testing import BrokerProcess
from support.clients.members import KINDS, Member, shared, until
from support.group_wire import fetch, members_of
from support.requests import now_ms
from support.wire import Wire

PARTITIONS = 4
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "100",
    "offsets.topic.num.partitions": "3",
}


class Group:
    """A group of one kind of client on a topic of its own."""

    def __init__(self, broker: BrokerProcess, kind: str, name: str) -> None:
        self.broker = broker
        self.kind = kind
        self.name = self.topic = name
        self.members: list[Member] = []
        self.written: list[str] = []
        wire = Wire("127.0.0.1", broker.port)
        wire.create(name, PARTITIONS)
        wire.close()

    def join(self, kind: str | None = None) -> Member:
        self.members.append(Member(kind or self.kind, self.broker.bootstrap, self.name, self.topic))
        return self.members[-1]

    def write(self, count: int = 40) -> None:
        wire = Wire("127.0.0.1", self.broker.port)
        for _ in range(count):
            number = len(self.written)
            self.written.append(f"value {number}")
            wire.produce(self.topic, [Record(0, now_ms(), b"k", self.written[-1].encode())], number % PARTITIONS)
        wire.close()

    def all_is_read(self) -> None:
        until(
            lambda: set(self.written) <= set().union(*(one.values for one in self.members)),
            lambda: f"not all of {len(self.written)} records are read: {self.members}\n{self.broker.stderr[-3000:]}",
        )

    def own_all(self, *members: Member) -> None:
        until(
            lambda: shared(list(members), PARTITIONS),
            lambda: f"the partitions are not shared: {members}\n{self.broker.stderr[-3000:]}",
        )

    def committed(self) -> list[int]:
        wire = Wire("127.0.0.1", self.broker.port)
        try:
            while (answer := fetch(wire, self.name)) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]:
                pass
            return [one[2] for one in sorted(answer)]
        finally:
            wire.close()

    def close(self) -> None:
        for member in self.members:
            member.close()


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(overrides=SETTINGS) as broker:
        yield broker


@pytest.fixture
def make_group(new_name: Callable[[], str]) -> Iterator[Callable[[BrokerProcess, str], Group]]:
    made: list[Group] = []

    def make(broker: BrokerProcess, kind: str) -> Group:
        made.append(Group(broker, kind, new_name()))
        return made[-1]

    yield make
    for group in made:
        group.close()


@pytest.mark.parametrize("kind", KINDS)
def test_members_share_one_is_killed_and_who_comes_later_goes_on_where_they_were(shared_broker, make_group, kind):
    group = make_group(shared_broker, kind)
    a = group.join()
    group.own_all(a)
    group.write()
    group.all_is_read()
    b = group.join()
    group.own_all(a, b)
    group.write()
    group.all_is_read()
    assert b.values
    b.kill()
    group.own_all(a)
    group.write()
    group.all_is_read()
    until(lambda: group.committed() == [30] * PARTITIONS, "not all is committed")
    a.stop()
    group.write()
    c = group.join()
    group.all_is_read()
    assert c.values == set(group.written[120:])


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_that_was_frozen_finds_its_partitions_taken_and_joins_again(shared_broker, make_group, kind):
    group = make_group(shared_broker, kind)
    a, b = group.join(), group.join()
    group.own_all(a, b)
    group.write()
    group.all_is_read()
    b.freeze()
    group.write()
    group.own_all(a)
    group.all_is_read()
    b.thaw()
    group.own_all(a, b)
    group.write()
    group.all_is_read()


@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_killed_in_the_middle_of_a_rebalance_loses_nothing(ottla_broker_factory, make_group, kind):
    broker = ottla_broker_factory(overrides={**SETTINGS, "group.initial.rebalance.delay.ms": "300"})
    group = make_group(broker, kind)
    a = group.join()
    group.own_all(a)
    group.write()
    group.all_is_read()
    before = sum(group.committed())
    wire = Wire("127.0.0.1", broker.port)
    b = group.join()
    deadline = monotonic() + 60
    while members_of(wire, group.name) == 1:
        assert monotonic() < deadline
    wire.close()
    broker.kill()
    broker.start()
    group.own_all(a, b)
    assert sum(group.committed()) >= before
    group.write()
    group.all_is_read()
    until(lambda: sum(group.committed()) == len(group.written), "not all is committed")


def test_a_static_member_that_restarts_keeps_its_place_without_a_rebalance(shared_broker, make_group):
    group = make_group(shared_broker, "static")
    first = group.join()
    group.own_all(first)
    group.write()
    group.all_is_read()
    until(lambda: sum(group.committed()) == 40, "not all is committed")
    first.kill()
    second = group.join()
    group.own_all(second)
    group.write()
    group.all_is_read()
    assert second.values == set(group.written[40:])


# -- the protocol of KIP-848


def test_a_static_member_that_leaves_for_a_while_keeps_its_place_without_a_rebalance(shared_broker, make_group):
    group = make_group(shared_broker, "static_consumer")
    first = group.join()
    group.own_all(first)
    group.write()
    group.all_is_read()
    until(lambda: sum(group.committed()) == 40, "not all is committed")
    first.stop()
    second = group.join()
    group.own_all(second)
    group.write()
    group.all_is_read()
    assert second.values == set(group.written[40:])
    (described,) = described_of(group)
    assert (described.group_epoch, [one.instance_id for one in described.members]) == (1, ["the-only-one"])


def described_of(group: Group) -> list[Any]:
    wire = Wire("127.0.0.1", group.broker.port)
    try:
        return list(wire.call(messages.ConsumerGroupDescribeRequest(group_ids=[group.name]), 1).groups)
    finally:
        wire.close()


def test_a_pattern_finds_topics_that_come_later(shared_broker, make_group):
    group = make_group(shared_broker, "pattern")
    a, b = group.join(), group.join()
    group.own_all(a, b)
    wire = Wire("127.0.0.1", shared_broker.port)
    wire.create(f"{group.topic}-later", PARTITIONS)
    until(
        lambda: sorted(a.owned + b.owned) == sorted([*range(PARTITIONS)] * 2) and len(a.owned) == len(b.owned),
        lambda: f"the new topic is not shared: {a} {b}",
    )
    wire.produce(f"{group.topic}-later", [Record(0, now_ms(), b"k", b"late")])
    wire.close()
    until(lambda: "late" in a.values | b.values, "the new topic is not read")


@pytest.mark.parametrize("kind", ["confluent", "cooperative", "kafka_python", "aiokafka"])
def test_a_group_moves_to_the_new_protocol_and_back_while_it_reads(shared_broker, make_group, kind):
    group = make_group(shared_broker, kind)
    a = group.join()
    group.own_all(a)
    group.write()
    group.all_is_read()
    new = group.join("consumer")
    group.own_all(a, new)
    assert described_of(group)[0].error_code == 0
    group.write()
    group.all_is_read()
    assert new.values
    a.stop()
    group.own_all(new)
    group.write()
    group.all_is_read()
    b = group.join()
    group.own_all(new, b)
    group.write()
    group.all_is_read()
    new.stop()
    group.own_all(b)
    assert described_of(group)[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    group.write()
    group.all_is_read()
    until(lambda: sum(group.committed()) == len(group.written), "not all is committed")
