"""What readers, tools and groups see of transactions, and markers written by hand."""

from __future__ import annotations

from typing import Any

from ottla.protocol import messages as m
from support.group_wire import GroupMember, fetch
from support.requests import batch
from support.requests import fetch as fetch_records
from support.scenes.stage import Stage, find_group_coordinator, scene
from support.transactional import (
    READ_COMMITTED,
    describe,
    end_offset,
    listed,
    name,
    patiently,
    producers,
    read_committed,
    state_of,
    visible,
    write_marker,
)

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


@scene
def members_of_consumer_groups_are_fenced(stage: Stage) -> None:
    """Groups of the new protocol (KIP-848): the member's epoch takes the place of the generation."""
    topic, group = stage.topic(), stage.name("group")
    find_group_coordinator(stage.wire, group)
    request = m.ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="a-member",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    answers = []

    def join() -> str:
        answers.append(stage.wire.call(request, 1))
        return name(answers[-1].error_code)

    stage.say("it joins", patiently(join), "NONE")
    joined = answers[-1]
    one, offsets, epoch = stage.producer(), {(topic, 0): 7}, joined.member_epoch

    def commit(**who: Any) -> Any:
        return patiently(lambda: one.commit_offsets(group, offsets, **who))

    stage.say("as no member", commit(), "NONE")
    stage.say("as the member", commit(member_id="a-member", generation_id=epoch), "NONE")
    stage.say("of an older epoch", commit(member_id="a-member", generation_id=epoch - 1), "ILLEGAL_GENERATION")
    stage.say("of a newer one", commit(member_id="a-member", generation_id=epoch + 1), "ILLEGAL_GENERATION")
    stage.say("as another", commit(member_id="b-member", generation_id=epoch), "UNKNOWN_MEMBER_ID")
    one.commit()
    (answer,) = fetch(stage.wire, group, (topic, 0), version=8)
    stage.say("committed", answer[2], 7)
