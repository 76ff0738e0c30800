"""`ottla transactions`, and a transaction that really hangs: its coordinator has lost all memory of it."""

import re
import shutil
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from ottla.testing import BrokerProcess
from support.consoles import fresh
from support.open_transactions import TIMEOUT_MS, begun
from support.tools import Tool

HOUR_MS = 3_600_000
ONE_EACH = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}


class Hanging(NamedTuple):
    broker: BrokerProcess
    topic: str


@pytest.fixture
def hanging(ottla_broker_factory) -> Iterator[Hanging]:
    """A topic whose first record is of a transaction that hangs, an hour old, and whose second is committed."""
    broker = ottla_broker_factory(overrides=ONE_EACH)
    topic = fresh("stuck")
    left = begun(broker.bootstrap, "gone", topic, timestamp=int(time.time() * 1000) - HOUR_MS)
    broker.kill()
    shutil.rmtree(broker.data_dir / "__transaction_state-0")
    broker.start()
    begun(broker.bootstrap, "healthy", topic).commit_transaction(30)
    yield Hanging(broker, topic)
    del left


def last_stable_offset(bootstrap: str, topic: str) -> int:
    settings = {"bootstrap.servers": bootstrap, "group.id": "test", "isolation.level": "read_committed"}
    consumer = Consumer(settings)
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
    finally:
        consumer.close()


def test_a_transaction_is_listed_and_described_from_its_beginning_to_its_end(ottla_shared_broker) -> None:
    bootstrap = ottla_shared_broker.bootstrap
    tool, topics, name = Tool("kafka-transactions.sh", bootstrap), sorted([fresh("a"), fresh("b")]), fresh("id")
    producer = begun(bootstrap, name, *topics)
    heading, line = tool.works(f"list --transactional-id-pattern {name}")
    assert re.fullmatch(r"TransactionalId *\tCoordinator\tProducerId *\tTransactionState\t", heading)
    assert [cell.strip() for cell in line.split("\t")][::3] == [name, "Ongoing"]
    heading, line = tool.works(f"describe --transactional-id {name}")
    assert [cell.strip() for cell in heading.split("\t")] == [
        "CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions", "",
    ]  # fmt: skip
    assert len(heading) == len(line)
    cells = [cell.strip() for cell in line.split("\t")]
    assert (cells[0], cells[1], cells[4], cells[5]) == ("0", name, "Ongoing", str(TIMEOUT_MS))
    assert cells[8].split(",") == [f"{topic}-0" for topic in topics]
    assert abs(time.time() * 1000 - int(cells[6]) - int(cells[7])) < HOUR_MS
    producer.commit_transaction(30)
    (row,) = Tool("ottla transactions", bootstrap)(f"describe --transactional-id {name} --output json").json
    assert (row["transaction_state"], row["topic_partitions"]) == ("CompleteCommit", [])
    (row,) = Tool("ottla transactions", bootstrap)(f"list --transactional-id-pattern {name} --output json").json
    assert row.keys() == {"transactional_id", "coordinator", "producer_id", "transaction_state"}


def test_only_transactions_that_run_for_long_are_listed_if_that_is_wanted(ottla_shared_broker) -> None:
    tool, name = Tool("ottla transactions", ottla_shared_broker.bootstrap), fresh("id")
    producer = begun(ottla_shared_broker.bootstrap, name, fresh("t"))
    for duration, count in (("-1", 1), (str(HOUR_MS), 0)):
        rows = tool(f"list --transactional-id-pattern {name} --duration-filter {duration} --output json").json
        assert len(rows) == count
    producer.abort_transaction(30)


def test_the_producers_of_a_partition_are_described(ottla_shared_broker) -> None:
    bootstrap, topic = ottla_shared_broker.bootstrap, fresh("t")
    begun(bootstrap, fresh("id"), topic).commit_transaction(30)
    producer = begun(bootstrap, fresh("id"), topic)
    for words in ("", " --broker-id 0"):
        lines = Tool("kafka-transactions", bootstrap).works(f"describe-producers --topic {topic} --partition 0{words}")
        assert len({len(line) for line in lines}) == 1
        heading, *rows = [[cell.strip() for cell in line.split("\t")] for line in lines]
        assert heading == [
            "ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
            "CurrentTransactionStartOffset", "",
        ]  # fmt: skip
        assert [(row[2], row[3], row[5]) for row in rows] == [("0", "0", "None"), ("-1", "0", "2")]
    producer.abort_transaction(30)


def test_a_hanging_transaction_is_found_and_aborted(hanging: Hanging) -> None:
    broker, topic = hanging
    kafkas, ours = Tool("kafka-transactions.sh", broker.bootstrap), Tool("ottla transactions", broker.bootstrap)
    live = begun(broker.bootstrap, "live", topic, timestamp=int(time.time() * 1000) - HOUR_MS)
    assert last_stable_offset(broker.bootstrap, topic) == 0
    for where in (f"--topic {topic}", f"--topic {topic} --partition 0", "--broker-id 0"):
        heading, line = kafkas.works(f"find-hanging {where}")
        assert [cell.strip() for cell in heading.split("\t")] == [
            "Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp",
            "Duration(min)", "",
        ]  # fmt: skip
        cells = [cell.strip() for cell in line.split("\t")]
        assert (cells[0], cells[1], cells[4], cells[5]) == (topic, "0", "-1", "0")
        assert int(cells[7]) in (60, 61)
    (row,) = ours("find-hanging --broker-id 0 --output json").json
    assert (row["start_offset"], row["duration_min"] >= 60) == (0, True)
    assert ours("find-hanging --broker-id 0 --max-transaction-timeout 999 --output json").json == []

    said = ours(f"abort --topic {topic} --partition 0 --start-offset 0")
    assert (said.status, said.out) == (1, [])  # nobody can be asked here
    assert f"Abort the transaction of producer {row['producer_id']} in {topic}-0: say --yes" in said.err[0]
    assert last_stable_offset(broker.bootstrap, topic) == 0
    assert ours.works(f"abort --topic {topic} --partition 0 --start-offset 0 --yes") == []
    assert len(kafkas.works("find-hanging --broker-id 0")) == 1
    assert last_stable_offset(broker.bootstrap, topic) == 3  # hanging, healthy, its marker; then that of `live`
    live.commit_transaction(30)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "test", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0)])
    assert [consumer.poll(30).offset() for _ in range(2)] == [1, 3]
    consumer.close()


def test_a_hanging_transaction_is_aborted_by_its_producer_as_older_brokers_need_it(hanging: Hanging) -> None:
    tool = Tool("kafka-transactions", hanging.broker.bootstrap)
    (row,) = Tool("ottla transactions", hanging.broker.bootstrap)("find-hanging --broker-id 0 --output json").json
    who = f"--producer-id {row['producer_id']} --coordinator-epoch {row['coordinator_epoch']}"
    stale = tool(f"abort --topic {hanging.topic} --partition 0 {who} --producer-epoch -1")
    assert stale.status == 1
    assert "Failed to abort transaction AbortTransactionSpec(topicPartition=" in stale.err[0]
    assert last_stable_offset(hanging.broker.bootstrap, hanging.topic) == 0
    tool.works(f"abort --topic {hanging.topic} --partition 0 {who} --producer-epoch {row['producer_epoch']}")
    assert last_stable_offset(hanging.broker.bootstrap, hanging.topic) > 1


def test_it_is_told_that_a_transaction_to_abort_does_not_hang(ottla_shared_broker) -> None:
    topic = fresh("t")
    producer = begun(ottla_shared_broker.bootstrap, fresh("id"), topic)
    said = Tool("ottla transactions", ottla_shared_broker.bootstrap)(
        f"abort --topic {topic} --partition 0 --start-offset 0"
    )
    assert said.status == 1
    assert "which does not hang" in said.err[0]
    producer.commit_transaction(30)


@pytest.mark.parametrize("tool", ["kafka-transactions.sh", "ottla transactions"])
def test_what_an_id_has_open_is_aborted_and_its_producer_fenced(tool: str, ottla_shared_broker) -> None:
    bootstrap, name = ottla_shared_broker.bootstrap, fresh("id")
    producer = begun(bootstrap, name, fresh("t"))
    ours = Tool("ottla transactions", bootstrap)
    refused = ours(f"forceTerminateTransaction --transactionalId {name}")
    assert (refused.status, len(refused.err)) == (1, 1)
    assert "say --yes" in refused.err[0]
    yes = " --yes" if tool.startswith("ottla") else ""
    Tool(tool, bootstrap).works(f"forceTerminateTransaction --transactionalId {name}{yes}")
    (row,) = ours(f"describe --transactional-id {name} --output json").json
    assert row["transaction_state"] in ("CompleteAbort", "Empty")
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("abort --output json", 2, "--output cannot go with abort"),
        ("explode", 2, "'explode' is not one of"),
        ("describe", 2, "describe needs --transactional-id"),
        (
            "describe --transactional-id no",
            1,
            "transactional-id `no`: DescribeTransactions request for",
        ),
        ("describe-producers --topic t", 2, "describe-producers needs --topic and --partition"),
        ("describe-producers --topic no --partition 0", 1, "partition no-0 on leader: UNKNOWN_TOPIC_OR_PARTITION"),
        (
            "describe-producers --topic no --partition 0 --broker-id 0",
            1,
            "no-0 on broker 0: UNKNOWN_TOPIC",
        ),
        ("describe-producers --topic no --partition 0 --broker-id 7", 1, "there is no broker 7"),
        ("list --topic t", 2, "--topic cannot go with list"),
        ("list --partition 0", 2, "--partition cannot go with list"),
        ("list --transactional-id-pattern (", 1, "Failed to list transactions: INVALID_REGULAR_EXPRESSION"),
        ("describe --transactional-id a --yes", 2, "--yes cannot go with describe"),
        ("find-hanging", 2, "requires either --topic or --broker-id to limit the scope"),
        ("find-hanging --broker-id 0 --partition 0", 2, "The --partition argument requires --topic"),
        ("find-hanging --topic no", 1, "Failed to describe 1 topics: UNKNOWN_TOPIC_OR_PARTITION"),
        ("find-hanging --topic no --partition 3", 1, "partition no-3: UNKNOWN_TOPIC_OR_PARTITION"),
        ("abort --topic t", 2, "abort needs --topic and --partition"),
        ("abort --topic t --partition 0", 2, "must be identified either with --start-offset"),
        ("abort --topic t --partition 0 --producer-id 1", 2, "Missing required argument --producer-epoch"),
        (
            "abort --topic t --partition 0 --producer-id 1 --producer-epoch 0",
            2,
            "Missing required argument --coordinator-epoch",
        ),
        ("abort --topic no --partition 0 --start-offset 0", 1, "producer state for partition no-0: UNKNOWN_TOPIC"),
        ("abort --topic no --partition 0 --start-offset a", 2, "'a' is not a valid integer"),
        ("forceTerminateTransaction", 2, "needs --transactional-id"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(ottla_shared_broker, words: str, status: int, told: str) -> None:
    said = Tool("kafka-transactions", ottla_shared_broker.bootstrap)(words.replace("(", "'('"))
    assert (said.status, said.out, len(said.err)) == (status, [], 1)
    assert told in said.err[0]


def test_there_is_nothing_to_abort_where_no_transaction_begins(ottla_shared_broker) -> None:
    topic = fresh("t")
    begun(ottla_shared_broker.bootstrap, fresh("id"), topic).commit_transaction(30)
    said = Tool("kafka-transactions", ottla_shared_broker.bootstrap)(
        f"abort --topic {topic} --partition 0 --start-offset 0"
    )
    assert said.status == 1
    assert f"Could not find any open transactions starting at offset 0 on partition {topic}-0" in said.err[0]


def test_an_unknown_id_is_not_made_to_be_terminated(ottla_shared_broker) -> None:
    tool, name = Tool("ottla transactions", ottla_shared_broker.bootstrap), fresh("id")
    said = tool(f"forceTerminateTransaction --transactional-id {name} --yes")
    assert (said.status, len(said.err)) == (1, 1)
    assert "TRANSACTIONAL_ID_NOT_FOUND" in said.err[0]
    assert tool(f"list --transactional-id-pattern {name} --output json").json == []
