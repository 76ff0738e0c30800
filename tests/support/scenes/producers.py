"""Producers that come, are fenced, add partitions, write and end their transactions."""

from __future__ import annotations

from ottla.protocol import messages as m
from support.requests import batch
from support.scenes.stage import Stage, find_group_coordinator, scene
from support.transactional import (
    Producer,
    describe,
    end_offset,
    find_coordinator,
    name,
    patiently,
    read_all,
    read_committed,
    state_of,
)

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
