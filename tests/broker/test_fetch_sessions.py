"""Fetch sessions: the rules of the cache, and what clients see of them."""

import pytest

from ottla.broker import fetch_sessions
from ottla.broker.fetch_sessions import FetchPartition, FetchSessions, Session, SessionError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import DeleteTopicsRequest
from support.requests import answers, batch, fetch_request, produce, values_in

FOREVER = 60_000


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

        def __call__(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(fetch_sessions, "monotonic", clock)
    return clock


def partitions(count, topic=b"t"):
    return [FetchPartition(topic, index, 0, 100, -1, -1) for index in range(count)]


def code_of(call, *arguments):
    with pytest.raises(SessionError) as caught:
        call(*arguments)
    return caught.value.code


# -- the cache


def test_a_session_counts_its_requests(clock):
    sessions = FetchSessions(10)
    session = sessions.begin(partitions(1), False)
    for epoch in (1, 2, 3):
        assert sessions.resume(session.id, epoch, False) is session
    for epoch in (3, 5, 0, -7):
        assert code_of(sessions.resume, session.id, epoch, False) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.resume(session.id, 4, False) is session


def test_epochs_wrap_to_1(clock):
    sessions = FetchSessions(10)
    session = sessions.begin(partitions(1), False)
    session.epoch = 2**31 - 1
    sessions.resume(session.id, 2**31 - 1, False)
    assert sessions.resume(session.id, 1, False) is session


def test_what_has_ended_or_never_was_is_not_found(clock):
    sessions = FetchSessions(10)
    session = sessions.begin(partitions(1), False)
    sessions.end(session.id)
    sessions.end(session.id)
    assert len(sessions) == 0
    for session_id in (session.id, 0, -5, 12345):
        assert code_of(sessions.resume, session_id, 1, False) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_speaks_of_names_or_of_ids(clock):
    sessions = FetchSessions(10)
    session = sessions.begin(partitions(1), True)
    assert code_of(sessions.resume, session.id, 1, False) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert sessions.resume(session.id, 1, True) is session


def test_ids_are_positive_and_differ(clock):
    sessions = FetchSessions(500)
    ids = {sessions.begin(partitions(1), False).id for _ in range(500)}
    assert len(ids) == 500
    assert all(0 < one < 2**31 for one in ids)


def test_nobody_is_put_out_before_two_minutes(clock):
    sessions = FetchSessions(2)
    assert sessions.begin(partitions(1), False)
    assert sessions.begin(partitions(1), False)
    clock.now += 119
    assert sessions.begin(partitions(50), False) is None
    assert (len(sessions), sessions.evicted) == (2, 0)


def test_the_least_recently_used_goes_when_idle(clock):
    sessions = FetchSessions(2)
    first, second = (sessions.begin(partitions(5), False) for _ in range(2))
    clock.now += 100
    sessions.resume(first.id, 1, False)
    clock.now += 21
    third = sessions.begin(partitions(1), False)
    assert third is not None
    assert code_of(sessions.resume, second.id, 1, False) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.resume(first.id, 2, False)
    assert sessions.evicted == 1


def test_a_larger_session_takes_the_place_of_the_smallest_that_had_its_time(clock):
    sessions = FetchSessions(3)
    sizes = {size: sessions.begin(partitions(size), False) for size in (7, 3, 5)}
    clock.now += 121
    for session in sizes.values():
        sessions.resume(session.id, 1, False)  # all are in use
    assert sessions.begin(partitions(3), False) is None
    assert sessions.begin(partitions(4), False) is not None
    assert code_of(sessions.resume, sizes[3].id, 2, False) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.resume(sizes[7].id, 2, False)
    assert sessions.resume(sizes[5].id, 2, False)


def test_a_cache_without_slots_has_no_sessions(clock):
    assert FetchSessions(0).begin(partitions(1), False) is None


def test_a_session_of_nothing_is_none(clock):
    assert FetchSessions(10).begin([], False) is None


def test_an_update_changes_adds_and_forgets():
    session = Session(1, partitions(2), False, 0.0)
    session.update(
        [FetchPartition(b"t", 1, 9, 50, 3, 2), FetchPartition(b"u", 0, 1, 1, -1, -1)], [(b"t", 0), (b"x", 5)]
    )
    assert [(one.topic, one.index, one.offset, one.max_bytes) for one in session.partitions.values()] == [
        (b"t", 1, 9, 50),
        (b"u", 0, 1, 1),
    ]


def test_what_was_forgotten_meanwhile_does_not_come_back():
    session = Session(1, partitions(3), False, 0.0)
    served = list(session.partitions.values())[:2]
    session.update([], [(b"t", 0)])
    session.put_last(served)
    assert [index for _, index in session.partitions] == [2, 1]


# -- over the wire


class Consumer:
    """Fetches in a session, as a client does."""

    def __init__(self, wire, *parts, version=12, **options):
        self.wire, self.version = wire, version
        reply = wire.call(fetch_request(*parts, session=(0, 0), **options), version)
        self.id, self.epoch, self.first = reply.session_id, 0, answers(reply)

    def send(self, *parts, **options):
        self.epoch += 1
        return self.wire.send(fetch_request(*parts, session=(self.id, self.epoch), **options), self.version)

    def receive(self, correlation_id):
        reply = self.wire.receive("Fetch", self.version, correlation_id)
        assert (reply.error_code, reply.session_id) == (0, self.id)
        return answers(reply)

    def fetch(self, *parts, **options):
        return self.receive(self.send(*parts, **options))


def test_an_incremental_fetch_tells_only_what_changed(served):
    wire = served.wire()
    wire.create("t", 3)
    produce(wire, "t", batch("a"), 0)
    consumer = Consumer(wire, *(("t", index, 0) for index in range(3)))
    assert consumer.id > 0
    assert list(consumer.first) == [("t", 0), ("t", 1), ("t", 2)]
    assert consumer.fetch(("t", 0, 1)) == {}
    produce(wire, "t", batch("b"), 2)
    found = consumer.fetch()
    assert {key: values_in(one.records) for key, one in found.items()} == {("t", 2): ["b"]}
    # until its offset moves, the record is there
    assert list(consumer.fetch()) == [("t", 2)]
    assert consumer.fetch(("t", 2, 1)) == {}


def test_a_new_high_watermark_or_log_start_is_a_change(served):
    wire = served.wire()
    wire.create("t", 2)
    produce(wire, "t", batch("a", "b", "c"), 0)
    consumer = Consumer(wire, ("t", 0, 3), ("t", 1, 0))
    partition = served.broker.partition("t", 0)
    partition.log.start_offset = 2
    found = consumer.fetch()
    assert [(key, one.log_start_offset) for key, one in found.items()] == [(("t", 0), 2)]
    assert consumer.fetch() == {}
    partition.high_watermark = 2
    assert [(key, one.high_watermark) for key, one in consumer.fetch().items()] == [(("t", 0), 2)]


def test_an_error_is_told_each_time_and_its_end_once(served):
    wire = served.wire()
    wire.create("t")
    consumer = Consumer(wire, ("t", 0, 5), max_wait_ms=FOREVER)
    assert consumer.first["t", 0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    for _ in range(2):
        assert consumer.fetch(max_wait_ms=FOREVER)["t", 0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert consumer.fetch(("t", 0, 0))["t", 0].error_code == 0
    assert consumer.fetch() == {}


def test_partitions_are_added_and_forgotten(served):
    wire = served.wire()
    wire.create("t", 2)
    for index in range(2):
        produce(wire, "t", batch("a"), index)
    consumer = Consumer(wire, ("t", 0, 0))
    assert set(consumer.fetch(("t", 1, 0))) == {("t", 0), ("t", 1)}
    assert set(consumer.fetch(forget=[("t", 0)])) == {("t", 1)}
    assert consumer.fetch(forget=[("t", 1), ("nowhere", 3)]) == {}


def test_an_incremental_fetch_waits_for_all_partitions_of_the_session(served, until):
    wire, producer = served.wire(), served.wire()
    wire.create("t", 3)
    consumer = Consumer(wire, *(("t", index, 0) for index in range(3)))
    waiting = consumer.send(max_wait_ms=FOREVER)
    until(lambda: all(served.broker.partition("t", index).waiters for index in range(3)))
    produce(producer, "t", batch("a"), 1)
    assert list(consumer.receive(waiting)) == [("t", 1)]


def test_wrong_epochs_and_ids_are_told_and_the_client_starts_again(served):
    wire = served.wire()
    wire.create("t")
    consumer = Consumer(wire, ("t", 0, 0))
    for session, code in (
        ((consumer.id, 2), ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ((consumer.id ^ 1, 1), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ((0, 1), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ):
        reply = wire.call(fetch_request(session=session, max_wait_ms=FOREVER), 12)
        assert (reply.error_code, reply.session_id, reply.responses) == (code, 0, [])
    # id n, epoch 0: another session in the place of the old one
    reply = wire.call(fetch_request(("t", 0, 0), session=(consumer.id, 0)), 12)
    assert reply.session_id not in (0, consumer.id)
    reply = wire.call(fetch_request(session=(consumer.id, 1)), 12)
    assert reply.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(served.broker.fetch_sessions) == 1


def test_a_final_epoch_ends_the_session_and_fetches_what_is_listed(served):
    wire = served.wire()
    wire.create("t")
    produce(wire, "t", batch("a"))
    consumer = Consumer(wire, ("t", 0, 0))
    reply = wire.call(fetch_request(("t", 0, 0), session=(consumer.id, -1)), 12)
    assert (reply.error_code, reply.session_id) == (0, 0)
    assert values_in(answers(reply)["t", 0].records) == ["a"]
    assert len(served.broker.fetch_sessions) == 0


def test_clients_before_version_7_and_those_who_want_none_have_no_session(served):
    wire = served.wire()
    wire.create("t")
    wire.call(fetch_request(("t", 0, 0), session=(0, 0)), 6)
    assert wire.call(fetch_request(("t", 0, 0), session=(0, -1)), 12).session_id == 0
    assert len(served.broker.fetch_sessions) == 0


def test_a_full_cache_means_a_fetch_without_session(serve):
    served = serve(max_incremental_fetch_session_cache_slots=1)
    wire = served.wire()
    wire.create("t")
    produce(wire, "t", batch("a"))
    assert Consumer(wire, ("t", 0, 0)).id > 0
    again = Consumer(wire, ("t", 0, 0))
    assert again.id == 0
    assert values_in(again.first["t", 0].records) == ["a"]


def test_ids_and_names_do_not_mix_in_a_session(served):
    wire = served.wire()
    topic_id = wire.create("t")
    by_name, by_id = Consumer(wire, ("t", 0, 0)), Consumer(wire, (topic_id, 0, 0), version=13)
    for consumer, version in ((by_name, 13), (by_id, 12)):
        reply = wire.call(fetch_request(session=(consumer.id, 1)), version)
        assert reply.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_topic_made_again_is_unknown_to_a_session_of_ids(served):
    wire = served.wire()
    topic_id = wire.create("t")
    consumer = Consumer(wire, (topic_id, 0, 0), version=13)
    wire.call(DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="t")]), 6)
    new_id = wire.create("t")
    assert consumer.fetch(max_wait_ms=FOREVER)[topic_id, 0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    found = consumer.fetch((new_id, 0, 0), forget=[(topic_id, 0)])
    assert {key: one.error_code for key, one in found.items()} == {(new_id, 0): 0}


def test_a_byte_limit_starves_no_partition_of_a_session(served):
    wire = served.wire()
    wire.create("t", 4)
    for index in range(4):
        for _ in range(20):
            produce(wire, "t", batch("x" * 1000), index)
    offsets = dict.fromkeys(range(4), 0)
    limits = {"partition_max_bytes": 3000, "max_bytes": 3000}
    consumer = Consumer(wire, *(("t", index, 0) for index in range(4)), **limits)
    found, served_in_turn = consumer.first, []
    for _ in range(12):
        moved = []
        for (_, index), one in found.items():
            if one.records:
                served_in_turn.append(index)
                offsets[index] += len(values_in(one.records))
                moved.append(("t", index, offsets[index]))
        found = consumer.fetch(*moved, **limits)
    assert served_in_turn[:8] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert max(offsets.values()) - min(offsets.values()) <= 2


def test_two_connections_that_share_a_session_harm_neither(served, until):
    first, second = served.wire(), served.wire()
    first.create("t", 2)
    consumer = Consumer(first, ("t", 0, 0), ("t", 1, 0))
    waiting = consumer.send(max_wait_ms=FOREVER)
    until(lambda: served.broker.partition("t", 0).waiters)
    reply = second.call(fetch_request(session=(consumer.id, 2), forget=[("t", 0)]), 12)
    assert reply.error_code == 0
    produce(second, "t", batch("a"), 0)
    assert list(consumer.receive(waiting)) == [("t", 0)]
