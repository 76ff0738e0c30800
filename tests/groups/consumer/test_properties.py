"""Whatever members, topics and time do, some things hold for a consumer group; and left in peace, it settles."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.groups.consumer.group import ConsumerGroup
from ottla.protocol import messages
from support.consumer_story import Story

CLIENTS = "ABCDE"
WHO = st.sampled_from(CLIENTS)
READS = st.sampled_from(["t", "t,u", "u", "t,u,v", ""])
REGEX = st.sampled_from([None, None, None, ".", "t|v"])


class Consumers(Story):
    """Clients that do as they are told: they read what they are given, and say what they have."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.reads: dict[str, set[tuple[bytes, int]]] = {}  # of clients that think they are members
        self.wants: dict[str, set[tuple[bytes, int]]] = {}  # what it was last told to have, and has not confirmed yet
        self.highest = 0

    def _said(self, who: str, message: Any) -> str:
        said = super()._said(who, message)
        if isinstance(message, messages.ConsumerGroupHeartbeatResponse):
            if message.error_code or message.member_epoch < 0:
                self.reads.pop(who, None)
                self.wants.pop(who, None)
                self.epochs[who] = 0
            else:
                self.reads.setdefault(who, set())
                if message.assignment is not None:
                    self.wants[who] = {
                        (one.topic_id, index) for one in message.assignment.topic_partitions for index in one.partitions
                    }
                    self.reads[who] |= self.wants[who]  # it takes its time to give something up
        return said

    def owns(self, who: str) -> str:
        by_topic: dict[str, list[str]] = {}
        for topic_id, index in self.reads.get(who, ()):
            topic = self.image.topics_by_id.get(topic_id)
            if topic is not None:
                by_topic.setdefault(topic.name, []).append(str(index))
        return "/".join(f"{topic}:{','.join(indexes)}" for topic, indexes in by_topic.items()) or "-"

    def beat(self, who: str, extra: str = "") -> None:
        owns = ""
        if who in self.wants:
            self.reads[who] = self.wants.pop(who)
            owns = f" owns={self.owns(who)}"
        self.do(f"{who} beats{owns}{extra}")


class ConsumerGroups(RuleBasedStateMachine):
    @initialize(interval=st.sampled_from([0, 1000]), size=st.sampled_from([3, 100]))
    def begin(self, interval: int, size: int) -> None:
        self.story = Consumers(assignment_interval_ms=interval, max_size=size)
        self.story.do("topic t 4")
        self.story.do("topic u 3")
        self.static: dict[str, str] = {}
        self.topics: dict[str, str] = {}

    @rule(who=WHO, reads=READS, regex=REGEX, assignor=st.sampled_from([None, "uniform", "range"]), static=st.booleans())
    def joins(self, who, reads, regex, assignor, static):
        words = [f"regex={regex}"] if regex else []
        words += [f"assignor={assignor}"] if assignor else []
        if (static and who in "DE") or who in self.static:
            self.static[who] = "i"
            words.append("instance=i")
        self.topics[who] = reads
        self.story.reads.pop(who, None)  # who joins has nothing
        self.story.wants.pop(who, None)
        self.story.do(f"{who} joins topics={reads} {' '.join(words)}")

    @rule(who=WHO)
    def beats(self, who):
        if who in self.story.reads:
            self.story.beat(who, f" instance={self.static[who]}" if who in self.static else "")

    @rule(who=WHO, reads=READS)
    def reads_other_topics(self, who, reads):
        if who in self.story.reads:
            self.topics[who] = reads
            self.story.beat(who, f" topics={reads}")

    @rule(who=WHO)
    def loses_an_answer_and_tries_again(self, who):
        if who in self.story.reads:
            epoch, reads, wants = self.story.epochs[who], set(self.story.reads[who]), self.story.wants.get(who)
            owns = self.story.owns(who)
            self.story.do(f"{who} beats owns={owns}")
            if who in self.story.reads:
                self.story.reads[who] = reads
                self.story.wants.pop(who, None)
                if wants is not None:
                    self.story.wants[who] = wants
                self.story.do(f"{who} beats full {self.topics[who]} owns={owns} epoch={epoch}")

    @rule(who=WHO, for_a_while=st.booleans())
    def leaves(self, who, for_a_while):
        if who in self.story.reads:
            self.story.reads[who] = set()
            if who in self.static:
                self.story.do(f"{who} leaves {'for-a-while' if for_a_while else ''} instance=i")
            else:
                self.story.do(f"{who} leaves")

    @rule(time=st.sampled_from([1, 500, 1000, 5000, 20_000, 44_000]))
    def waits(self, time):
        self.story.do(f"wait {time}")

    @rule(who=WHO)
    def freezes(self, who):
        """Longer than its session, while the others go on."""
        for _ in range(5):
            self.story.do("wait 10000")
            for other in CLIENTS:
                if other != who and other in self.story.reads:
                    self.story.beat(other)
        self.story.reads.pop(who, None)  # it finds out before it reads on: clients look at the time

    @rule(name=st.sampled_from("tuv"), count=st.integers(1, 5))
    def topic_comes_or_grows(self, name, count):
        known = self.story.image.topics.get(name)
        self.story.do(f"topic {name} {max(count, len(known.partitions) if known else 0)}")

    @rule(name=st.sampled_from("tuv"))
    def topic_goes(self, name):
        if name in self.story.image.topics:
            self.story.do(f"topic {name} gone")

    @rule()
    def broker_restarts(self):
        before = self.core
        self.story.do("restart")
        after = self.core
        if before is not None and after is not None:
            assert after.members.keys() == before.members.keys()
            for id, member in after.members.items():
                old = before.members[id]
                assert (member.profile, member.epoch, member.state) == (old.profile, old.epoch, old.state)
                assert (member.assigned, member.revoking) == (old.assigned, old.revoking)
                assert after.targets.get(id, {}) == before.targets.get(id, {})
            assert after.epoch >= before.epoch
            assert after.subscriptions.all() == before.subscriptions.all()

    @property
    def core(self) -> ConsumerGroup | None:
        group = self.story.groups.get("g")
        return group.core if group is not None and isinstance(group.core, ConsumerGroup) else None

    @invariant()
    def nobody_reads_what_another_does(self):
        if not hasattr(self, "story"):
            return
        seen: dict[tuple[bytes, int], str] = {}
        core = self.core
        for who, reads in self.story.reads.items():
            if core is None or self.story.ids[who] not in core.members:
                continue  # it is out, and learns of it with its next heartbeat
            for partition in reads:
                if partition[0] not in self.story.image.topics_by_id:
                    continue  # there is nothing to read
                assert seen.setdefault(partition, who) == who
                assert core.owner(*partition) == self.story.ids[who]

    @invariant()
    def epochs_only_rise(self):
        if hasattr(self, "story") and self.core is not None:
            core = self.core
            assert core.epoch >= self.story.highest
            self.story.highest = core.epoch
            assert core.target_epoch <= core.epoch
            assert all(member.epoch <= core.target_epoch for member in core.members.values())

    def teardown(self):
        """Those that are silent go; the others settle, and every partition that somebody reads has an owner."""
        if not hasattr(self, "story") or self.core is None:
            return
        story = self.story
        for _ in range(12):
            story.do("wait 5000")
            for who in list(story.reads):
                story.beat(who, f" instance={self.static[who]}" if who in self.static else "")
        core = self.core
        assert core is not None
        assert set(core.members) == {story.ids[who] for who in story.reads}
        if not core.members:
            return
        assert core.state_name == "Stable"
        read = {name for member in core.members.values() for name in core.subscriptions.topics(member.profile)}
        wanted = {
            (topic.id, index)
            for name, topic in story.image.topics.items()
            if name in read
            for index in range(len(topic.partitions))
        }
        assert set().union(*story.reads.values()) == wanted


TestConsumerGroups = ConsumerGroups.TestCase
TestConsumerGroups.settings = settings(max_examples=60, stateful_step_count=40)
