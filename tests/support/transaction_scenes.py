"""What producers say to a broker about transactions, right and wrong, and what they hear: scenes, told on raw frames.

Each scene is a function that takes a `Stage`. `say` holds an answer against what it must be; what a real Kafka answers
is the same, unless the line says otherwise (and docs/choices.md why). So one text tests both.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from ottla.protocol import messages as m
from support.group_wire import GroupMember, fetch
from support.requests import batch
from support.requests import fetch as fetch_records
from support.transactional import (
    READ_COMMITTED,
    Producer,
    describe,
    end_offset,
    find_coordinator,
    is_led,
    listed,
    name,
    patiently,
    producers,
    read_all,
    read_committed,
    state_of,
    visible,
    write_marker,
)
from support.wire import Wire

SAME = object()


def find_group_coordinator(wire: Wire, group: str) -> None:
    request = m.FindCoordinatorRequest(coordinator_keys=[group])
    patiently(lambda: name(wire.call(request, 4).coordinators[0].error_code), ("COORDINATOR_NOT_AVAILABLE",))


class Said(NamedTuple):
    scene: str
    line: str
    heard: Any
    ottla: Any
    kafka: Any


class Stage:
    """A broker, names that nobody else uses, and what was said."""

    def __init__(self, wire: Wire, scene: str) -> None:
        self.wire = wire
        self.scene = scene
        self.said: list[Said] = []
        self._numbers = count()

    def say(self, line: str, heard: Any, expected: Any, *, kafka: Any = SAME) -> None:
        self.said.append(Said(self.scene, line, heard, expected, expected if kafka is SAME else kafka))

    def name(self, what: str) -> str:
        return f"{self.scene}-{what}-{next(self._numbers)}"

    def topic(self, partitions: int = 1, **configs: str) -> str:
        name = self.name("topic")
        self.create(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        return name

    def create(self, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> bytes:
        """Make a topic and wait for it; returns its id."""
        id = self.wire.create(name, partitions, configs)
        for index in range(partitions):
            patiently(lambda index=index: is_led(self.wire, name, index), (False,))
        return id

    def producer(self, id: str | None = None, **options: Any) -> Producer:
        made = Producer(self.wire, id or self.name("id"), **options)
        find_coordinator(self.wire, made.id)
        assert made.init() == "NONE"
        return made


Scene = Callable[[Stage], None]
SCENES: list[Scene] = []


def scene(told: Scene) -> Scene:
    SCENES.append(told)
    return told


def play(told: Scene, wire: Wire) -> list[Said]:
    stage = Stage(wire, told.__name__)
    told(stage)
    return stage.said


# -- producers come ------------------------------------------------------------------------------------------------


@scene
def a_producer_comes(stage: Stage) -> None:
    one = Producer(stage.wire, stage.name("id"))
    find_coordinator(stage.wire, one.id)
    for version in range(6):
        stage.say(f"InitProducerId {version}", one.init(version), "NONE")
        stage.say(f"its epoch after {version}", one.epoch, version)
    pid = one.pid
    for timeout in (0, -1, 900_001):
        stage.say(f"with a timeout of {timeout} ms", one.init(timeout_ms=timeout), "INVALID_TRANSACTION_TIMEOUT")
    stage.say("with the longest timeout", one.init(timeout_ms=900_000), "NONE")
    stage.say("with an id and no epoch", one.init(expected=(pid, -1)), "INVALID_REQUEST")
    stage.say("with an epoch and no id", one.init(expected=(-1, 0)), "INVALID_REQUEST")
    stage.say("with another id", one.init(expected=(pid + 99, one.epoch)), "PRODUCER_FENCED")
    stage.say("with another id, long ago", one.init(3, expected=(pid + 99, one.epoch)), "INVALID_PRODUCER_EPOCH")
    stage.say("with an older epoch", one.init(expected=(pid, 1)), "PRODUCER_FENCED")
    stage.say("with a newer epoch", one.init(expected=(pid, 100)), "PRODUCER_FENCED")
    was = one.epoch
    stage.say("with its own", one.init(expected=(pid, was)), "NONE")
    stage.say("it has one more", (one.pid, one.epoch), (pid, was + 1))
    stage.say("again, as the answer was lost", one.init(expected=(pid, was)), "NONE")
    stage.say("it has the same", (one.pid, one.epoch), (pid, was + 1))
    stage.say("without a name", Producer(stage.wire, "").init(), "INVALID_REQUEST")
    fresh = Producer(stage.wire, stage.name("id"))
    stage.say("an unknown id, with a number of old", fresh.init(expected=(pid, 3)), "NONE")
    stage.say("its epoch", fresh.epoch, 0)


@scene
def nobody_knows_the_id(stage: Stage) -> None:
    topic, group = stage.topic(), stage.name("group")
    find_group_coordinator(stage.wire, group)
    one = Producer(stage.wire, stage.name("id"))
    find_coordinator(stage.wire, one.id)
    one.pid, one.epoch = 4711, 0
    wrong = "INVALID_PRODUCER_ID_MAPPING"
    for version in range(6):
        stage.say(f"AddPartitionsToTxn {version}", one.add((topic, 0), version=version), wrong)
        stage.say(f"EndTxn {version}", one.end(version=version), wrong)
    for version in range(5):
        stage.say(f"AddOffsetsToTxn {version}", one.add_offsets(group, version), wrong)
    for version in range(6):
        stage.say(f"TxnOffsetCommit {version}", one.commit_offsets(group, {(topic, 0): 1}, version), wrong)
    for version in (3, 9, 10, 11, 12):
        stage.say(f"Produce {version}", one.send(topic, "x", version=version), wrong)
    stage.say("DescribeTransactions", state_of(stage.wire, one.id), "TRANSACTIONAL_ID_NOT_FOUND")
    stage.say("nothing is written", end_offset(stage.wire, topic, committed=False), 0)
    one.id = ""
    stage.say("an id that is empty: add", one.add((topic, 0)), "INVALID_REQUEST")
    stage.say("an id that is empty: end", one.end(), "INVALID_REQUEST")
    stage.say("an id that is empty: offsets", one.add_offsets(group), "INVALID_REQUEST")
    stage.say("an id that is empty: describe", state_of(stage.wire, ""), "INVALID_REQUEST")


@scene
def somebody_else_with_the_id(stage: Stage) -> None:
    topic, group = stage.topic(), stage.name("group")
    find_group_coordinator(stage.wire, group)
    one = stage.producer()
    one.init()
    one.begin((topic, 0))
    for who, numbers, error in (
        ("another id", {"pid": one.pid + 1000}, "INVALID_PRODUCER_ID_MAPPING"),
        ("an older epoch", {"epoch": 0}, "PRODUCER_FENCED"),
        ("a newer epoch", {"epoch": 7}, "PRODUCER_FENCED"),
    ):
        fenced = error == "PRODUCER_FENCED"
        for version in range(6):
            told = "INVALID_PRODUCER_EPOCH" if fenced and version < 2 else error
            stage.say(f"{who}: AddPartitionsToTxn {version}", one.add((topic, 0), version=version, **numbers), told)
            stage.say(f"{who}: EndTxn {version}", one.end(version=version, **numbers), told)
        for version in range(5):
            told = "INVALID_PRODUCER_EPOCH" if fenced and version < 2 else error
            stage.say(f"{who}: AddOffsetsToTxn {version}", one.add_offsets(group, version, **numbers), told)
        told = "INVALID_PRODUCER_EPOCH" if fenced else error
        for version in range(6):
            heard = one.commit_offsets(group, {(topic, 0): 1}, version, **numbers)
            stage.say(f"{who}: TxnOffsetCommit {version}", heard, told)
        for version in (3, 9, 11, 12):
            stage.say(f"{who}: Produce {version}", one.send(topic, "x", version=version, **numbers), told)
        stage.say(f"{who}: verify", one.verify((topic, 0), **numbers), error)
    stage.say("it is as it was", state_of(stage.wire, one.id), "Ongoing")
    stage.say("and ends", one.commit(), "NONE")
    stage.say("with nothing in it", read_committed(stage.wire, topic)[0], [])


@scene
def a_successor_fences(stage: Stage) -> None:
    topic = stage.topic()
    for version in (1, 2):
        old = stage.producer(version=version)
        old.begin((topic, 0))
        stage.say(f"version {version}: it writes", old.send(topic, f"lost-{version}"), "NONE")
        new = Producer(stage.wire, old.id, version=version)
        stage.say("its successor comes", new.init(), "NONE")
        stage.say("the same producer id", new.pid == old.pid, True)
        stage.say("two epochs later: one for the abort", new.epoch, 2)
        stage.say("the old one writes", old.send(topic, "late"), "INVALID_PRODUCER_EPOCH")
        stage.say("adds", old.add((topic, 0)), "PRODUCER_FENCED")
        stage.say("commits", old.end(), "PRODUCER_FENCED")
        stage.say("comes anew", old.init(expected=(old.pid, old.epoch)), "PRODUCER_FENCED")
        new.begin((topic, 0))
        stage.say("the new one writes", new.send(topic, f"kept-{version}"), "NONE")
        stage.say("and commits", new.commit(), "NONE")
        stage.say("what is seen", read_committed(stage.wire, topic)[0][-1:], [f"kept-{version}"])


@scene
def a_producer_gives_up_its_transaction(stage: Stage) -> None:
    topic = stage.topic()
    one = stage.producer()
    one.begin((topic, 0))
    one.send(topic, "lost")
    was = (one.pid, one.epoch)
    stage.say("it comes with its own numbers", one.init(expected=was), "NONE")
    stage.say("and has one epoch more", (one.pid, one.epoch), (was[0], was[1] + 1))
    stage.say("what it wrote is aborted", read_committed(stage.wire, topic)[0], [])
    one.begin((topic, 0))
    stage.say("it goes on", one.send(topic, "kept"), "NONE")
    one.commit()
    stage.say("what is seen", read_committed(stage.wire, topic)[0], ["kept"])


# -- partitions ----------------------------------------------------------------------------------------------------


@scene
def partitions_are_added(stage: Stage) -> None:
    topic, one = stage.topic(2), stage.producer()
    for version in range(6):
        stage.say(f"AddPartitionsToTxn {version}", one.add((topic, 0), version=version), "NONE")
        heard = one.add((topic, 1), (topic, 2), ("nowhere", 0), version=version)
        wrong = "UNKNOWN_TOPIC_OR_PARTITION"
        stage.say(f"some are not there ({version})", heard, ["OPERATION_NOT_ATTEMPTED", wrong, wrong])
        told = "TOPIC_AUTHORIZATION_FAILED" if version < 4 else "NONE"
        if version < 4:
            stage.say(f"an internal one ({version})", one.add(("__transaction_state", 0), version=version), told)
    found = describe(stage.wire, one.id)
    stage.say("what is in it", [(t.topic, list(t.partitions)) for t in found.topics], [(topic, [0])])
    for version in (4, 5):
        stage.say(f"{version} verifies what is in it", one.verify((topic, 0), version=version), "NONE")
        heard = one.verify((topic, 0), (topic, 1), version=version)
        stage.say(f"{version} verifies what is not", heard, ["NONE", "TRANSACTION_ABORTABLE"])
    stage.say("verifying adds nothing", one.verify((topic, 1)), "TRANSACTION_ABORTABLE")
    one.commit()
    stage.say("nothing is in it any more", patiently(lambda: one.verify((topic, 0))), "TRANSACTION_ABORTABLE")


@scene
def many_transactions_in_one_request(stage: Stage) -> None:
    topic = stage.topic(2)
    one, two = stage.producer(), stage.producer()
    parts = [
        m.AddPartitionsToTxnRequest.Transaction(
            transactional_id=id,
            producer_id=pid,
            producer_epoch=0,
            verify_only=verify,
            topics=[m.AddPartitionsToTxnRequest.Topic(name=topic, partitions=[0])],
        )
        for id, pid, verify in ((one.id, one.pid, False), (two.id, two.pid, True), ("nobody", 5, True))
    ]
    reply = stage.wire.call(m.AddPartitionsToTxnRequest(transactions=parts), 5)
    heard = {
        found.transactional_id: name(found.topic_results[0].results_by_partition[0].partition_error_code)
        for found in reply.results_by_transaction
    }
    stage.say("an error for all", name(reply.error_code), "NONE")
    expected = {one.id: "NONE", two.id: "TRANSACTION_ABORTABLE", "nobody": "INVALID_PRODUCER_ID_MAPPING"}
    stage.say("an error for each", heard, expected)
    stage.say("one is begun", (state_of(stage.wire, one.id), state_of(stage.wire, two.id)), ("Ongoing", "Empty"))


@scene
def batches_need_a_transaction(stage: Stage) -> None:
    topic, one = stage.topic(2), stage.producer(version=1)
    for version, error in ((3, "INVALID_TXN_STATE"), (9, "INVALID_TXN_STATE"), (11, "TRANSACTION_ABORTABLE")):
        stage.say(f"Produce {version}, and nothing was added", one.send(topic, "x", version=version), error)
    one.begin((topic, 0))
    for version in (3, 8, 9, 10, 11):
        stage.say(f"Produce {version}, and it was", one.send(topic, f"v{version}", version=version), "NONE")
    stage.say("another partition", one.send(topic, "x", partition=1), "INVALID_TXN_STATE")
    plain = batch("x", base_sequence=9, producer_id=one.pid, producer_epoch=0)
    stage.say("a plain batch in between", one.send_raw((topic, 0, plain)), ["OUT_OF_ORDER_SEQUENCE_NUMBER"])
    plain = batch("x", base_sequence=5, producer_id=one.pid, producer_epoch=0)
    stage.say("a plain batch in order", one.send_raw((topic, 0, plain)), ["INVALID_TXN_STATE"])
    stage.say("the same, without the id", one.send_raw((topic, 0, plain), id=None), ["INVALID_TXN_STATE"])
    inside = batch("x", base_sequence=5, producer_id=one.pid, producer_epoch=0, transactional=True)
    stage.say(
        "a transactional batch without the id",
        one.send_raw((topic, 0, inside), id=None),
        ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"],
    )
    stage.say(
        "its duplicate is known",
        one.send_raw(
            (topic, 0, batch("v11", base_sequence=4, producer_id=one.pid, producer_epoch=0, transactional=True))
        ),
        ["NONE"],
    )
    stage.say("it commits", one.commit(), "NONE")
    stage.say("a batch that comes late", one.send(topic, "late"), "INVALID_TXN_STATE")
    stage.say("in version 11", one.send(topic, "late", version=11), "TRANSACTION_ABORTABLE")
    stage.say("what is seen", read_committed(stage.wire, topic)[0], ["v3", "v8", "v9", "v10", "v11"])
    stage.say("nothing hangs", end_offset(stage.wire, topic), 6)


@scene
def batches_begin_a_transaction(stage: Stage) -> None:
    topic, one = stage.topic(2), stage.producer()
    stage.say("Produce 12 adds", one.send(topic, "a"), "NONE")
    stage.say("the next", one.send(topic, "b"), "NONE")
    stage.say("the other partition", one.send(topic, "c", partition=1), "NONE")
    stage.say("state", state_of(stage.wire, one.id), "Ongoing")
    was = one.epoch
    stage.say("commit", one.commit(), "NONE")
    stage.say("epoch", one.epoch, was + 1)
    stage.say(
        "late, of the old epoch",
        patiently(lambda: one.send(topic, "late", epoch=was, sequence=2)),
        "INVALID_PRODUCER_EPOCH",
    )
    stage.say(
        "on another partition", one.send(topic, "late", epoch=was, sequence=1, partition=1), "INVALID_PRODUCER_EPOCH"
    )
    stage.say(
        "a sequence that is not the first",
        patiently(lambda: one.send(topic, "gap", sequence=5)),
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
    )
    stage.say("the next transaction", patiently(lambda: one.send(topic, "d")), "NONE")
    stage.say("is aborted", one.abort(), "NONE")
    stage.say("what is seen", patiently(lambda: read_committed(stage.wire, topic), ((["a", "b"], 3),)), (["a", "b"], 5))
    stage.say("in the other", read_committed(stage.wire, topic, 1)[0], ["c"])
    stage.say("by those who see all", read_all(stage.wire, topic), ["a", "b", "d"])


@scene
def one_request_with_all_kinds(stage: Stage) -> None:
    topic, one, other = stage.topic(4), stage.producer(), stage.producer()
    who = {"producer_id": one.pid, "producer_epoch": 0, "base_sequence": 0}
    heard = one.send_raw(
        (topic, 0, batch("in", transactional=True, **who)),
        (topic, 1, batch("plain", **who)),
        (topic, 2, batch("other", transactional=True, **{**who, "producer_id": other.pid})),
        (topic, 9, batch("nowhere", transactional=True, **who)),
    )
    stage.say(
        "each has its answer",
        heard,
        ["NONE", "NONE", "INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_TOPIC_OR_PARTITION"],
        kafka=["INVALID_PRODUCER_ID_MAPPING"] * 4,  # more than one producer id in a request
    )


# -- the end -------------------------------------------------------------------------------------------------------


@scene
def ends_of_version_1(stage: Stage) -> None:
    topic = stage.topic()
    for version in range(5):
        one = stage.producer(version=1)
        stage.say(f"{version}: commit of nothing", one.end(True, version=version), "INVALID_TXN_STATE")
        stage.say(f"{version}: abort of nothing", one.end(False, version=version), "INVALID_TXN_STATE")
        one.begin((topic, 0))
        one.send(topic, f"v{version}")
        stage.say(f"{version}: commit", one.end(True, version=version), "NONE")
        stage.say(f"{version}: again", one.commit(version=version), "NONE")
        stage.say(f"{version}: and abort", one.abort(version=version), "INVALID_TXN_STATE")
        one.begin((topic, 0))
        one.send(topic, "lost")
        stage.say(f"{version}: abort", one.end(False, version=version), "NONE")
        stage.say(f"{version}: again", one.abort(version=version), "NONE")
        stage.say(f"{version}: and commit", one.commit(version=version), "INVALID_TXN_STATE")
        stage.say(f"{version}: epoch", one.epoch, 0)
    expected = [f"v{version}" for version in range(5)]
    stage.say("what is seen", read_committed(stage.wire, topic)[0], expected)


@scene
def ends_of_version_2(stage: Stage) -> None:
    topic, one = stage.topic(), stage.producer()
    stage.say("commit of nothing", one.end(True), "INVALID_TXN_STATE")
    stage.say("abort of nothing", one.end(False), "NONE")
    stage.say("raises the epoch", one.epoch, 1)
    stage.say("again", one.abort(epoch=0), "NONE")
    stage.say("changes nothing", one.epoch, 1)
    stage.say("a commit instead", one.commit(epoch=0), "INVALID_TXN_STATE")
    stage.say("abort of nothing, once more", one.abort(), "NONE")
    stage.say("raises the epoch", one.epoch, 2)
    assert patiently(lambda: one.send(topic, "a")) == "NONE"
    stage.say("commit", one.end(True), "NONE")
    stage.say("epoch", one.epoch, 3)
    stage.say("commit again", one.commit(epoch=2), "NONE")
    stage.say("epoch", one.epoch, 3)
    stage.say("and abort", one.abort(epoch=2), "INVALID_TXN_STATE")
    stage.say("commit of the next, which has nothing", one.commit(), "INVALID_TXN_STATE")
    stage.say("two epochs ago", one.commit(epoch=1), "PRODUCER_FENCED")
    stage.say("in version 1, one epoch ago", one.commit(version=4, epoch=2), "PRODUCER_FENCED")
    assert patiently(lambda: one.send(topic, "b")) == "NONE"
    stage.say("an old end in a new transaction", one.end(True, epoch=2), "PRODUCER_FENCED")
    stage.say("abort", one.end(False), "NONE")
    stage.say("what is seen", patiently(lambda: read_committed(stage.wire, topic), ((["a"], 2),)), (["a"], 4))


@scene
def from_one_version_to_the_other(stage: Stage) -> None:
    topic = stage.topic()
    old = stage.producer(version=1)
    old.begin((topic, 0))
    old.send(topic, "old")
    stage.say("begun in version 1, ended in version 2", old.end(version=5), "NONE")
    stage.say("epoch", old.epoch, 1)
    stage.say("begun in version 2", patiently(lambda: old.send(topic, "new", version=12)), "NONE")
    stage.say("ended in version 1", old.end(version=3), "NONE")
    stage.say("what is seen", patiently(lambda: read_committed(stage.wire, topic)[0], (["old"],)), ["old", "new"])
    new = Producer(stage.wire, old.id)
    stage.say("a successor", new.init(), "NONE")
    stage.say("its epoch", new.epoch, 2)


# -- what readers see ----------------------------------------------------------------------------------------------


@scene
def committed_reads_in_every_version(stage: Stage) -> None:
    topic_id = stage.create(topic := stage.name("topic"))
    one, two = stage.producer(version=1), stage.producer(version=1)
    for producer, value, commit in ((one, "a", True), (two, "b", False), (one, "c", False), (two, "d", True)):
        producer.begin((topic, 0))
        producer.send(topic, value)
        producer.end(commit)
        producer.settle()
    stage.wire.produce_batch(topic, batch("plain"))
    one.begin((topic, 0))
    one.send(topic, "open")
    stage.wire.produce_batch(topic, batch("behind"))
    for version in range(4, 19):
        where = topic if version < 13 else topic_id
        answer = fetch_records(stage.wire, where, 0, version=version, isolation=READ_COMMITTED)
        stage.say(f"Fetch {version}", visible(answer), ["a", "d", "plain"])
        stage.say(f"Fetch {version}: stable, committed", (answer.last_stable_offset, answer.high_watermark), (9, 11))
        begins = sorted((x.first_offset, x.producer_id) for x in answer.aborted_transactions)
        stage.say(f"Fetch {version}: aborted", begins, [(2, two.pid), (4, one.pid)])
        answer = fetch_records(stage.wire, where, 0, version=version)
        stage.say(f"Fetch {version}: of all", len(visible(answer)), 7)
        stage.say(f"Fetch {version}: of all, aborted", answer.aborted_transactions, [], kafka=None)
    answer = fetch_records(stage.wire, topic, 6, isolation=READ_COMMITTED)
    stage.say("from 6 on, aborted", list(answer.aborted_transactions), [])
    answer = fetch_records(stage.wire, topic, 9, isolation=READ_COMMITTED)
    stage.say("at the end", (answer.records or b"", list(answer.aborted_transactions or [])), (b"", []))
    for version in range(2, 10):
        stage.say(f"ListOffsets {version}", end_offset(stage.wire, topic, version=version), 9)
        stage.say(f"ListOffsets {version}, all", end_offset(stage.wire, topic, committed=False, version=version), 11)
    one.abort()
    stage.say("decided", patiently(lambda: end_offset(stage.wire, topic), (9,)), 12)
    stage.say("what is seen", read_committed(stage.wire, topic)[0], ["a", "d", "plain", "behind"])


@scene
def what_tools_see(stage: Stage) -> None:
    topic, one = stage.topic(2), stage.producer()
    stage.say("at first", state_of(stage.wire, one.id), "Empty")
    stage.say("since", describe(stage.wire, one.id).transaction_start_time_ms, -1)
    one.send(topic, "x")
    one.send(topic, "x", partition=1)
    found = describe(stage.wire, one.id)
    shown = (found.transaction_state, found.producer_id, found.producer_epoch, found.transaction_timeout_ms)
    stage.say("open", shown, ("Ongoing", one.pid, 0, 60_000))
    stage.say("since", found.transaction_start_time_ms > 1_600_000_000_000, True)
    places = sorted((t.topic, sorted(t.partitions)) for t in found.topics)
    stage.say("where", places, [(topic, [0, 1])])
    known = producers(stage.wire, topic)[one.pid]
    stage.say("its producer", (known.producer_epoch, known.last_sequence, known.current_txn_start_offset), (0, 0, 0))
    stage.say("no coordinator yet", known.coordinator_epoch, -1)
    stage.say("listed", listed(stage.wire, producer_id_filters=[one.pid]), {one.id: "Ongoing"})
    for version, filters, fits in (
        (0, {"state_filters": ["Ongoing"]}, True),
        (0, {"state_filters": ["CompleteCommit", "Empty"]}, False),
        (0, {"state_filters": ["Ongoing"], "producer_id_filters": [one.pid + 1000]}, False),
        (1, {"duration_filter": 0}, True),
        (1, {"duration_filter": 600_000}, False),
        (2, {"transactional_id_pattern": f"{stage.scene}.*"}, True),
        (2, {"transactional_id_pattern": "no.*"}, False),
        (2, {"transactional_id_pattern": ""}, True),
    ):
        heard = patiently(lambda v=version, f=filters: one.id in listed(stage.wire, v, **f), (not fits,))
        stage.say(f"listed with {list(filters)} {version}", heard, fits)
    request = m.ListTransactionsRequest(state_filters=["Ongoing", "Fancy", "Dead", "PrepareEpochFence"])
    stage.say("a state that is none", list(stage.wire.call(request, 0).unknown_state_filters), ["Fancy"])
    request = m.ListTransactionsRequest(transactional_id_pattern="(")
    stage.say("a pattern that is none", name(stage.wire.call(request, 2).error_code), "INVALID_REGULAR_EXPRESSION")
    one.commit()
    found = describe(stage.wire, one.id)
    stage.say("done", (found.transaction_state, found.producer_epoch, list(found.topics)), ("CompleteCommit", 1, []))
    known = producers(stage.wire, topic)[one.pid]
    shown = (known.producer_epoch, known.last_sequence, known.current_txn_start_offset, known.coordinator_epoch)
    stage.say("its producer", shown, (1, -1, -1, 0))
    stage.say("listed when done, by time", one.id in listed(stage.wire, 1, duration_filter=0), True)


# -- markers by hand -----------------------------------------------------------------------------------------------


@scene
def an_administrator_ends_what_hangs(stage: Stage) -> None:
    topic, one = stage.topic(2), stage.producer()
    one.init()
    one.send(topic, "hangs")
    who = (one.pid, one.epoch)
    stage.say("an epoch of old", write_marker(stage.wire, topic, (one.pid, 0)), "INVALID_PRODUCER_EPOCH")
    stage.say("no such partition", write_marker(stage.wire, topic, who, partition=7), "UNKNOWN_TOPIC_OR_PARTITION")
    stage.say("no such topic", write_marker(stage.wire, "nowhere", who), "UNKNOWN_TOPIC_OR_PARTITION")
    stage.say("it hangs", end_offset(stage.wire, topic), 0)
    stage.say("abort", write_marker(stage.wire, topic, who, coordinator_epoch=5), "NONE")
    stage.say("nothing hangs", read_committed(stage.wire, topic), ([], 2))
    heard = write_marker(stage.wire, topic, who, coordinator_epoch=4)
    stage.say("a coordinator of old", heard, "TRANSACTION_COORDINATOR_FENCED")
    known = producers(stage.wire, topic)[one.pid]
    stage.say("its producer", (known.coordinator_epoch, known.current_txn_start_offset), (5, -1))
    heard = write_marker(stage.wire, topic, (99_999, 3), partition=1, commit=True)
    stage.say("of a producer that was never there", heard, "NONE")
    stage.say("is written", end_offset(stage.wire, topic, 1), 1)


@scene
def markers_of_version_2_are_newer(stage: Stage) -> None:
    topic, one = stage.topic(), stage.producer()
    one.send(topic, "x")
    newer = {"version": 2, "transaction_version": 2}
    stage.say("the same epoch", write_marker(stage.wire, topic, (one.pid, 0), **newer), "INVALID_PRODUCER_EPOCH")
    stage.say("a newer one", write_marker(stage.wire, topic, (one.pid, 1), commit=True, **newer), "NONE")
    stage.say("what is seen", read_committed(stage.wire, topic)[0], ["x"])


# -- offsets of groups ---------------------------------------------------------------------------------------------


@scene
def offsets_in_a_transaction(stage: Stage) -> None:
    topic, group = stage.topic(2), stage.name("group")
    find_group_coordinator(stage.wire, group)
    for version in range(6):
        one = stage.producer(version=2 if version == 5 else 1)
        place, offset = (topic, 0), 10 + version
        told = {4: "TRANSACTION_ABORTABLE", 5: "NONE"}.get(version, "INVALID_TXN_STATE")
        stage.say(f"{version}: not added", one.commit_offsets(group, {place: offset}, version), told)
        if version < 5:
            heard = patiently(lambda one=one, version=version: one.add_offsets(group, version))
            stage.say(f"{version}: AddOffsetsToTxn", heard, "NONE")
        heard = one.commit_offsets(group, {place: offset, (topic, 5): 1}, version)
        stage.say(f"{version}: one is not there", heard, ["NONE", "UNKNOWN_TOPIC_OR_PARTITION"])
        before = -1 if version == 0 else offset - 1
        stage.say(f"{version}: held back", fetch(stage.wire, group, place, version=5)[0][2], before)
        for stable in (7, 8, 9):
            (answer,) = fetch(stage.wire, group, place, version=stable, require_stable=True)
            stage.say(
                f"{version}: asked for stable ones by {stable}",
                (answer[2], answer[5].name),
                (-1, "UNSTABLE_OFFSET_COMMIT"),
            )
        (answer,) = fetch(stage.wire, group, (topic, 1), version=9, require_stable=True)
        stage.say(f"{version}: another partition", answer[5].name, "NONE")
        one.commit()
        stage.say(
            f"{version}: committed",
            patiently(lambda b=before, p=place: fetch(stage.wire, group, p, version=5)[0][2], (before,)),
            offset,
        )
    one.commit_offsets(group, {place: 99})
    one.abort()
    (answer,) = fetch(stage.wire, group, place, version=9)
    patiently(
        lambda: fetch(stage.wire, group, place, version=9, require_stable=True)[0][5].name, ("UNSTABLE_OFFSET_COMMIT",)
    )
    stage.say("aborted", fetch(stage.wire, group, place, version=9)[0][2], 15)
    long = one.commit_offsets(group, {place: 1}, metadata="x" * 5000)
    stage.say("too much metadata", long, "OFFSET_METADATA_TOO_LARGE")
    stage.say("a group without a name", one.commit_offsets("", {place: 1}), "INVALID_GROUP_ID")


@scene
def the_later_commit_wins(stage: Stage) -> None:
    topic, group = stage.topic(), stage.name("group")
    place = (topic, 0)
    find_group_coordinator(stage.wire, group)
    member = GroupMember(stage.wire, group)

    def position() -> int:
        patiently(
            lambda: fetch(stage.wire, group, place, version=9, require_stable=True)[0][5].name,
            ("UNSTABLE_OFFSET_COMMIT",),
        )
        return int(fetch(stage.wire, group, place, version=9)[0][2])

    one, two = stage.producer(), stage.producer()
    one.commit_offsets(group, {place: 1})
    member.commit({place: 2})
    stage.say("a plain commit counts at once", fetch(stage.wire, group, place, version=5)[0][2], 2)
    one.commit()
    stage.say("and wins over the transaction that was before", position(), 2)
    patiently(lambda: one.commit_offsets(group, {place: 3}))
    patiently(lambda: two.commit_offsets(group, {place: 4}))
    two.commit()
    patiently(lambda: fetch(stage.wire, group, place, version=5)[0][2], (2,))
    stage.say("of two transactions, the one that ended first", fetch(stage.wire, group, place, version=5)[0][2], 4)
    one.commit()
    stage.say("wrote later, and wins", position(), 4)
    patiently(lambda: one.commit_offsets(group, {place: 5}))
    request = m.OffsetDeleteRequest(
        group_id=group,
        topics=[
            m.OffsetDeleteRequest.Topic(name=topic, partitions=[m.OffsetDeleteRequest.Partition(partition_index=0)])
        ],
    )
    stage.say("offsets are deleted", name(stage.wire.call(request, 0).error_code), "NONE")
    one.commit()
    stage.say("and do not come back", position(), -1)
    patiently(lambda: one.commit_offsets(group, {place: 6}))
    reply = stage.wire.call(m.DeleteGroupsRequest(groups_names=[group]), 2)
    stage.say("the group is deleted", name(reply.results[0].error_code), "NONE")
    one.commit()
    stage.say("and does not come back", position(), -1)


@scene
def members_are_fenced(stage: Stage) -> None:
    topic, group = stage.topic(), stage.name("group")
    find_group_coordinator(stage.wire, group)
    member = GroupMember(stage.wire, group, topic, instance="i")
    assert member.join().error_code == 0
    synced = member.sync({member.id: b""}, protocol_type="consumer", protocol_name="range")
    assert not synced.error_code, synced
    one, offsets = stage.producer(), {(topic, 0): 7}

    def commit(**who: Any) -> Any:
        return patiently(lambda: one.commit_offsets(group, offsets, **who))

    stage.say("as no member", commit(), "NONE")
    right = {"member_id": member.id, "generation_id": member.generation, "group_instance_id": "i"}
    stage.say("as the member", commit(**right), "NONE")
    stage.say(
        "of an older generation", commit(**{**right, "generation_id": member.generation - 1}), "ILLEGAL_GENERATION"
    )
    stage.say("of a newer one", commit(**{**right, "generation_id": member.generation + 1}), "ILLEGAL_GENERATION")
    stage.say(
        "as another member", commit(**{**right, "member_id": "x", "group_instance_id": None}), "UNKNOWN_MEMBER_ID"
    )
    stage.say("as a member with another's place", commit(**{**right, "member_id": "x"}), "FENCED_INSTANCE_ID")
    stage.say("in a place that is none", commit(**{**right, "group_instance_id": "j"}), "UNKNOWN_MEMBER_ID")
    nobody = patiently(lambda: one.commit_offsets(stage.name("nobody"), offsets, member_id="x", generation_id=3))
    stage.say("of a group that is not there", nobody, "ILLEGAL_GENERATION")
    one.abort()
    stage.say("leaves", member.leave().name, "NONE")
