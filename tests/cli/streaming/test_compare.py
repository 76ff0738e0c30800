from uuid import uuid4

import pytest
from confluent_kafka import Producer

from support.tools import Said, Tool


@pytest.fixture
def compared(ottla_shared_broker):
    """What the command says of two topics with these records."""

    def run(old: list[tuple[str, str | None]], new: list[tuple[str, str | None]], words: str = "") -> Said:
        name = uuid4().hex[:8]
        producer = Producer({"bootstrap.servers": ottla_shared_broker.bootstrap, "transactional.id": name})
        producer.init_transactions(30)
        producer.begin_transaction()
        for topic, records in ((f"{name}-old", old), (f"{name}-new", new)):
            for key, value in records:
                producer.produce(topic, key=key, value=value)
        producer.commit_transaction(30)
        producer.begin_transaction()
        producer.produce(f"{name}-old", key="aborted", value="x")
        producer.abort_transaction(30)
        said = Tool("ottla streams compare", ottla_shared_broker.bootstrap)(f"{name}-old {name}-new {words}")
        return said._replace(out=[line.replace(f"{name}-", "") for line in said.out])

    return run


def test_the_newest_value_of_each_key_counts(compared) -> None:
    said = compared([("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("c", None)], [("b", "1"), ("a", "2")])
    assert (said.status, said.err) == (0, [])
    assert said.out == ["2 keys the same, 0 different, 0 only in old, 0 only in new"]


def test_differences_are_shown_up_to_a_number(compared) -> None:
    old = [("same", "1"), ("other", "1"), ("gone", "1")]
    new = [("same", "1"), ("other", "2"), ("added", "\u0001")]
    said = compared(old, new)
    assert said.status == 1
    assert said.out == [
        "1 keys the same, 1 different, 1 only in old, 1 only in new",
        "  other: 1 / 2",
        "  gone: 1 / not there",
        "  added: not there / 0x01",
    ]
    assert compared(old, new, "--show 1").out[1:] == ["  other: 1 / 2", "  … and 2 more"]
    assert len(compared(old, new, "--show 0").out) == 1


def test_a_topic_that_is_not_there_is_named(ottla_shared_broker) -> None:
    said = Tool("ottla streams compare", ottla_shared_broker.bootstrap)("nobody nothing")
    assert (said.status, said.err) == (1, ["ottla: there is no topic nobody"])
