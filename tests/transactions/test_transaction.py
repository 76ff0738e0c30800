"""The life of a transactional id, told as stories: who asks, what they get, what is written."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.protocol.errors import ErrorCode, MalformedMessage
from ottla.transactions import records
from ottla.transactions.states import BEING_ENDED, EMPTY, FROM, ONGOING, TITLES, State
from ottla.transactions.transaction import (
    LAST_EPOCH,
    Answer,
    Effect,
    Mark,
    NeedsProducerId,
    Transaction,
    Write,
)

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
PID, NEXT_PID = 7, 8
V1, V2 = 0, 2


class Story:
    """A transactional id and its coordinator; every step returns the answer as (error, producer id, epoch)."""

    def __init__(self, epoch: int = -1) -> None:
        self.now = 1000
        self.one = Transaction("t", PID, 60_000, self.now)
        self.one.epoch = epoch
        self.written: list[Write] = []
        self.marks: list[Mark] = []

    def _do(self, effects: list[Effect]) -> tuple[str, int, int] | None:
        answer = None
        for effect in effects:
            if isinstance(effect, Write):
                self.written.append(effect)
            elif isinstance(effect, Mark):
                self.marks.append(effect)
            else:
                assert answer is None
                answer = (effect.code.name, effect.producer_id, effect.epoch)
        return answer

    def init(self, expected: tuple[int, int] | None = None, fresh: int | None = None) -> object:
        return self._do(self.one.init("me", 60_000, expected, fresh, self.now))

    def add(self, *partitions: tuple[str, int], pid: int = PID, epoch: int = 0) -> str:
        answer = self._do(self.one.add("me", pid, epoch, frozenset(partitions), self.now))
        assert answer is not None
        return answer[0]

    def end(
        self, commit: bool = True, pid: int = PID, epoch: int = 0, version: int = V2, fresh: int | None = None
    ) -> object:
        effects = self.one.end("me", pid, epoch, commit=commit, version=version, fresh_id=fresh, now_ms=self.now)
        return self._do(effects)

    def markers_written(self) -> None:
        self._do(self.one.completed(self.now))

    @property
    def state(self) -> str:
        return self.one.state.title


def test_a_transaction_from_begin_to_commit():
    story = Story()
    assert story.init() == ("NONE", PID, 0)
    assert story.state == "Empty"
    assert story.add(A0) == "NONE"
    assert story.add(A1, B0) == "NONE"
    assert story.state == "Ongoing"
    assert story.end(epoch=0) == ("NONE", PID, 1)
    assert story.state == "PrepareCommit"
    assert story.marks == [Mark(PID, 1, True, frozenset({A0, A1, B0}))]
    assert story.add(A0, epoch=1) == "CONCURRENT_TRANSACTIONS"
    story.markers_written()
    assert story.state == "CompleteCommit"
    assert story.one.partitions == set()
    assert story.add(A0, epoch=1) == "NONE"
    assert len(story.written) == 6


def test_a_partition_that_is_in_it_is_not_written_again():
    story = Story(epoch=0)
    story.add(A0)
    before = len(story.written)
    assert story.add(A0) == "NONE"
    assert len(story.written) == before


def test_version_1_keeps_its_epoch():
    story = Story(epoch=3)
    story.add(A0, epoch=3)
    assert story.end(commit=False, epoch=3, version=V1) == ("NONE", PID, 3)
    assert story.marks == [Mark(PID, 3, False, frozenset({A0}))]
    assert story.end(commit=False, epoch=3, version=V1) == ("CONCURRENT_TRANSACTIONS", -1, -1)
    assert story.end(commit=True, epoch=3, version=V1) == ("CONCURRENT_TRANSACTIONS", -1, -1)
    story.markers_written()
    assert story.end(commit=False, epoch=3, version=V1) == ("NONE", PID, 3)
    assert story.end(commit=True, epoch=3, version=V1) == ("INVALID_TXN_STATE", -1, -1)


@pytest.mark.parametrize(
    ("pid", "epoch", "error"),
    [(99, 5, "INVALID_PRODUCER_ID_MAPPING"), (PID, 4, "PRODUCER_FENCED"), (PID, 6, "PRODUCER_FENCED")],
)
def test_only_the_newest_producer_may_act(pid, epoch, error):
    story = Story(epoch=5)
    story.add(A0, epoch=5)
    assert story.add(A1, pid=pid, epoch=epoch) == error
    assert story.one.verify(pid, epoch, A0).name == error
    for version in (V1, V2):
        assert story.end(pid=pid, epoch=epoch, version=version) == (error, -1, -1)
    assert story.one.partitions == {A0}


def test_a_request_to_end_that_comes_again_is_answered_as_before():
    story = Story(epoch=0)
    story.add(A0)
    assert story.end(epoch=0) == ("NONE", PID, 1)
    assert story.end(epoch=0) == ("CONCURRENT_TRANSACTIONS", -1, -1)
    assert story.end(epoch=0, commit=False) == ("CONCURRENT_TRANSACTIONS", -1, -1)
    assert story.end(epoch=1, commit=False) == ("CONCURRENT_TRANSACTIONS", -1, -1)
    story.markers_written()
    assert story.end(epoch=0) == ("NONE", PID, 1)
    assert story.end(epoch=0, commit=False) == ("INVALID_TXN_STATE", -1, -1)
    assert len(story.marks) == 1
    story.add(A0, epoch=1)
    assert story.end(epoch=0) == ("PRODUCER_FENCED", -1, -1)


def test_an_abort_where_nothing_was_added_raises_the_epoch_and_a_commit_is_refused():
    story = Story(epoch=0)
    assert story.end(commit=True) == ("INVALID_TXN_STATE", -1, -1)
    assert story.end(commit=False, version=V1) == ("INVALID_TXN_STATE", -1, -1)
    assert story.end(commit=False) == ("NONE", PID, 1)
    assert story.state == "CompleteAbort"
    assert story.end(commit=False, epoch=0) == ("NONE", PID, 1)
    assert story.end(commit=False, epoch=1) == ("NONE", PID, 2)
    assert story.marks == []


def test_a_producer_that_comes_anew_fences_the_one_before_and_aborts_its_transaction():
    story = Story(epoch=0)
    story.add(A0)
    assert story.init() == ("CONCURRENT_TRANSACTIONS", -1, -1)
    assert story.marks == [Mark(PID, 1, False, frozenset({A0}))]
    assert story.add(A1, epoch=0) == "PRODUCER_FENCED"
    assert story.end(epoch=0) == ("PRODUCER_FENCED", -1, -1)
    assert story.init() == ("CONCURRENT_TRANSACTIONS", -1, -1)
    story.markers_written()
    assert story.init() == ("NONE", PID, 2)


def test_a_producer_raises_its_own_epoch_after_an_error_and_may_ask_twice():
    story = Story(epoch=4)
    assert story.init((PID, 4)) == ("NONE", PID, 5)
    assert story.init((PID, 4)) == ("NONE", PID, 5)
    assert story.init((PID, 3)) == ("PRODUCER_FENCED", -1, -1)
    assert story.init((99, 5)) == ("PRODUCER_FENCED", -1, -1)
    assert story.init() == ("NONE", PID, 6)
    assert story.init((PID, 5)) == ("PRODUCER_FENCED", -1, -1)


def test_a_producer_whose_transaction_is_open_may_fence_itself_but_a_zombie_does_not_disturb():
    story = Story(epoch=4)
    story.add(A0, epoch=4)
    assert story.init((PID, 3)) == ("PRODUCER_FENCED", -1, -1)
    assert story.state == "Ongoing"
    assert story.init((PID, 4)) == ("CONCURRENT_TRANSACTIONS", -1, -1)
    story.markers_written()
    assert story.init((PID, 4)) == ("NONE", PID, 5)


def test_a_new_producer_id_takes_over_when_epochs_run_out():
    story = Story(epoch=LAST_EPOCH)
    with pytest.raises(NeedsProducerId):
        story.init()
    assert story.init(fresh=NEXT_PID) == ("NONE", NEXT_PID, 0)
    assert story.init((PID, LAST_EPOCH)) == ("PRODUCER_FENCED", -1, -1)

    story = Story(epoch=LAST_EPOCH)
    assert story.init((PID, LAST_EPOCH), fresh=NEXT_PID) == ("NONE", NEXT_PID, 0)
    assert story.init((PID, LAST_EPOCH)) == ("NONE", NEXT_PID, 0)


def test_a_transaction_with_the_last_epoch_ends_with_a_new_producer_id():
    story = Story(epoch=LAST_EPOCH)
    story.add(A0, epoch=LAST_EPOCH)
    with pytest.raises(NeedsProducerId):
        story.end(epoch=LAST_EPOCH)
    assert story.state == "Ongoing"
    assert story.end(epoch=LAST_EPOCH, fresh=NEXT_PID) == ("NONE", NEXT_PID, 0)
    assert story.marks == [Mark(PID, LAST_EPOCH + 1, True, frozenset({A0}))]
    assert story.end(epoch=LAST_EPOCH) == ("CONCURRENT_TRANSACTIONS", -1, -1)
    story.markers_written()
    assert story.end(epoch=LAST_EPOCH) == ("NONE", NEXT_PID, 0)
    assert story.add(A0, pid=NEXT_PID, epoch=0) == "NONE"


def test_a_producer_with_the_last_epoch_can_be_fenced():
    for expected in (None, (PID, LAST_EPOCH)):
        story = Story(epoch=LAST_EPOCH)
        story.add(A0, epoch=LAST_EPOCH)
        assert story.init(expected) == ("CONCURRENT_TRANSACTIONS", -1, -1)
        story.markers_written()
        assert story.init(expected, fresh=NEXT_PID) == ("NONE", NEXT_PID, 0)


def test_a_transaction_ends_by_itself_when_its_time_is_up():
    story = Story(epoch=0)
    assert not story.one.has_timed_out(10**9)
    story.add(A0)
    assert not story.one.has_timed_out(story.now + 60_000)
    assert story.one.has_timed_out(story.now + 60_001)
    story._do(story.one.fence(story.now))
    assert story.marks == [Mark(PID, 1, False, frozenset({A0}))]
    assert not story.one.has_timed_out(10**9)
    assert story.end(epoch=0) == ("PRODUCER_FENCED", -1, -1)


def test_an_id_that_nobody_uses_is_forgotten_but_never_with_a_transaction():
    story = Story(epoch=0)
    assert story.one.is_forgotten(story.now + 101, 100)
    assert not story.one.is_forgotten(story.now + 100, 100)
    story.add(A0)
    assert not story.one.is_forgotten(10**9, 100)
    story.end()
    assert not story.one.is_forgotten(10**9, 100)
    story.markers_written()
    (write,) = story.one.forget()
    assert (records.read_key(write.key), write.value) == ("t", None)


def test_verifying_adds_nothing():
    story = Story(epoch=0)
    assert story.one.verify(PID, 0, A0) is ErrorCode.TRANSACTION_ABORTABLE
    story.add(A0)
    assert story.one.verify(PID, 0, A0) is ErrorCode.NONE
    assert story.one.verify(PID, 0, A1) is ErrorCode.TRANSACTION_ABORTABLE
    story.end()
    assert story.one.verify(PID, 1, A0) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_states_have_the_names_of_requests():
    assert [state.title for state in State][:4] == ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort"]
    assert {state.title for state in State} | {"PrepareEpochFence"} == TITLES
    assert set(FROM) == set(State)


@pytest.mark.parametrize("bad", [b"", b"\0", b"\0\1x", b"\0\0", b"\xff\xffabc"])
def test_records_that_are_none_are_told_apart(bad):
    with pytest.raises(MalformedMessage):
        records.read_key(bad)


class Life(RuleBasedStateMachine):
    """Producers that know their id and epoch, or an old one, do anything at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.story = Story()
        self.fresh = 100
        self.known: list[tuple[int, int]] = [(PID, -1)]  # what producers were ever told
        self.added: set[tuple[str, int]] = set()

    def _fresh(self) -> int:
        self.fresh += 1
        return self.fresh

    def _told(self, answer: object) -> None:
        code, pid, epoch = answer  # type: ignore[misc]
        if code == "NONE" and pid >= 0 and (pid, epoch) not in self.known:
            self.known.append((pid, epoch))

    @rule(with_expected=st.booleans(), data=st.data())
    def init(self, with_expected, data):
        expected = data.draw(st.sampled_from(self.known)) if with_expected else None
        if expected is not None and expected[1] < 0:
            expected = None
        before = self.story.one.state
        newest = (self.story.one.producer_id, self.story.one.epoch)
        answer = self.story.init(expected, self._fresh())
        if answer[0] == "NONE":
            assert before is not ONGOING
            assert (answer[1], answer[2]) != newest or expected is not None
        self._told(answer)

    @rule(partition=st.sampled_from([A0, A1, B0]), data=st.data())
    def add(self, partition, data):
        pid, epoch = data.draw(st.sampled_from(self.known))
        one = self.story.one
        newest, free = (one.producer_id, one.epoch), one.state not in BEING_ENDED
        code = self.story.add(partition, pid=pid, epoch=epoch)
        assert (code == "NONE") == ((pid, epoch) == newest and free)
        if code == "NONE":
            self.added.add(partition)

    @rule(commit=st.booleans(), version=st.sampled_from([V1, V2]), data=st.data())
    def end(self, commit, version, data):
        pid, epoch = data.draw(st.sampled_from(self.known))
        marks, before = len(self.story.marks), self.story.one.state
        answer = self.story.end(commit, pid, epoch, version, self._fresh())
        if len(self.story.marks) > marks:
            assert before is ONGOING
            assert answer[0] == "NONE"
            mark = self.story.marks[-1]
            assert mark.partitions == self.added
            assert mark.commit == commit
            assert mark.epoch >= epoch
        self._told(answer)

    @rule()
    def markers(self):
        if self.story.one.state in BEING_ENDED:
            self.story.markers_written()
            self.added = set()

    @rule()
    def time_is_up(self):
        if self.story.one.state is ONGOING:
            self.story._do(self.story.one.fence(self.story.now))

    @rule(epoch=st.sampled_from([LAST_EPOCH - 1, LAST_EPOCH]))
    def epochs_are_used_up(self, epoch):
        one = self.story.one
        if one.state is EMPTY and one.epoch < epoch:
            one.epoch, one.last_epoch = epoch, -1
            self.known.append((one.producer_id, epoch))
            self.story.written.append(one._write())

    @invariant()
    def the_log_knows_it_all(self):
        if not self.story.written:
            return
        last = self.story.written[-1]
        again = Transaction.restored(records.read_key(last.key), records.read_value(last.value))
        one = self.story.one
        for name in Transaction.__slots__:
            if name != "last_epoch":  # Kafka's format has no place for it
                assert getattr(again, name) == getattr(one, name), name

    @invariant()
    def epochs_that_producers_get_leave_one_for_fencing(self):
        assert all(epoch <= LAST_EPOCH for _, epoch in self.known)
        assert self.story.one.epoch <= LAST_EPOCH + 1


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


def test_an_answer_carries_what_came_with_the_request():
    (answer,) = Transaction("t", PID, 1, 1).add("somebody", PID, 5, frozenset({A0}), 1)
    assert answer == Answer("somebody", ErrorCode.PRODUCER_FENCED)
