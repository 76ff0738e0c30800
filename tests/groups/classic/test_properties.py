"""Whatever members do and however time passes, some things hold for a classic group."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.groups.classic.states import EMPTY, PREPARING, STABLE
from ottla.protocol import messages
from support.group_story import GroupStory

CLIENTS = st.sampled_from("ABCD")
PROTOCOLS = st.sampled_from(["range", "range,sticky", "sticky,range"])
PARTITIONS = range(4)
LONGEST = 10 * 60_000  # no join or sync waits longer than timeouts allow


class Watched(GroupStory):
    """Notes who is told to own what, in which generation."""

    def __init__(self, **options: int) -> None:
        super().__init__(**options)
        self.owners: dict[tuple[int, str], set[str]] = {}
        self.seen_generation = 0

    def _said(self, who: str, message: object) -> str:
        said = super()._said(who, message)
        if isinstance(message, messages.SyncGroupResponse) and not message.error_code:
            for partition in message.assignment.decode().split(","):
                if partition:
                    self.owners.setdefault((self.group.generation, partition), set()).add(self.ids[who])
        return said


class ClassicGroups(RuleBasedStateMachine):
    @initialize(delay=st.sampled_from([0, 3000]), size=st.sampled_from([2, 100]))
    def begin(self, delay: int, size: int) -> None:
        self.story = Watched(delay=delay, size=size)

    @rule(
        who=CLIENTS,
        protocols=PROTOCOLS,
        version=st.sampled_from([3, 8, 9]),
        forgets=st.booleans(),
        static=st.booleans(),
        subscription=st.sampled_from(["s", "t"]),
    )
    def joins(self, who, protocols, version, forgets, static, subscription):
        options = f"v={version} protocols={protocols} metadata={subscription} rebalance=20000"
        if forgets:
            options += " id="
        if static and who in "CD":
            options += f" instance={who}"
        self.story.do(f"{who} joins {options}")

    @rule(who=CLIENTS, seed=st.integers(0, 1000))
    def syncs(self, who, seed):
        """A leader gives each partition to one member."""
        given: dict[str, list[str]] = {}
        names = list(self.story.ids)
        for partition in PARTITIONS:
            if names:
                given.setdefault(names[(seed + partition * 7) % len(names)], []).append(f"p{partition}")
        self.story.do(f"{who} syncs " + " ".join(f"{name}={','.join(parts)}" for name, parts in given.items()))

    @rule(who=CLIENTS)
    def beats(self, who):
        self.story.do(f"{who} beats")

    @rule(who=CLIENTS)
    def leaves(self, who):
        self.story.do(f"{who} leaves")

    @rule(who=CLIENTS)
    def commits(self, who):
        self.story.do(f"{who} commits")

    @rule(time=st.sampled_from([1, 1000, 3000, 9000, 25_000]))
    def waits(self, time):
        self.story.do(f"wait {time}")

    @rule()
    def everybody_who_waits_is_answered_in_the_end(self):
        self.story.do(f"wait {LONGEST}")
        assert not self.story.waiting
        assert self.story.group.state is EMPTY

    @invariant()
    def no_partition_has_two_owners_in_one_generation(self):
        if hasattr(self, "story"):
            for (generation, partition), owners in self.story.owners.items():
                instances = {self.story.names.get(owner, owner) for owner in owners}  # a static one may have a new id
                assert len(instances) == 1, (generation, partition, owners)

    @invariant()
    def the_generation_only_grows_and_the_leader_is_a_member(self):
        if not hasattr(self, "story"):
            return
        group, story = self.story.group, self.story
        assert group.generation >= story.seen_generation
        story.seen_generation = group.generation
        assert (group.members.leader in group.members) == (len(group.members) > 0)
        assert (group.state is EMPTY) == (not group.members) or group.state is PREPARING
        assert group.members.joined == sum(member.joining is not None for member in group.members)
        if group.state is STABLE:
            assert all(member.joining is None for member in group.members)


TestClassicGroups = ClassicGroups.TestCase
TestClassicGroups.settings = settings(max_examples=100, stateful_step_count=30)
