"""Stories about consumer groups, told to their cores under a clock of their own: no sockets, no waiting.

Each line is an event, and behind `=>` all answers that come of it, in any order:

    topic t 4
    A joins t               => A: epoch 1 has t:0,1,2,3
    B joins t               => B: epoch 2 has nothing, again in 1000
    A beats                 => A: epoch 1 has t:0,1
    A beats owns=t:0,1      => A: epoch 2
    B beats                 => B: epoch 2 has t:2,3

A client keeps the member id and epoch that it is told. `joins` sends a full heartbeat with epoch 0, `beats` one that
says nothing but what `owns=` (t:0,1/u:2, or - for nothing) or the other words say: topics=t,u, regex=…, epoch=N,
instance=i, id=X, assignor=…, rack=…, timeout=MS. `full t` makes it a full request. `leaves` ends it, `leaves
for-a-while` with epoch -2.
In the classic protocol: `enters t` (JoinGroup), `syncs`, `pulses` (Heartbeat), `quits` (LeaveGroup). `commits t:0`,
`fetches`. `topic t 4` makes a topic or lets it grow, `topic t gone` deletes it; `wait` lets time pass, and timers come;
`restart` reads the group back from what was stored.
"""

from __future__ import annotations

from typing import Any

from ottla.controller.image import BrokerInfo, ClusterImage, PartitionImage, TopicImage
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.requests import Client
from ottla.groups.classic.stored import restore as restore_classic
from ottla.groups.consumer import service
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.stored import restore
from ottla.groups.consumer.world import Settings
from ottla.groups.effects import Become, Effect, Reply, Timer, Write
from ottla.groups.group import Group
from ottla.groups.records import GROUP_KEY, kind_of
from ottla.groups.timers import Timers
from ottla.protocol import codec, messages
from ottla.protocol.errors import ErrorCode

LARGEST = 1_000_000
REBALANCE_MS, SESSION_MS, CLASSIC_SESSION_MS = 60_000, 45_000, 10_000
Heartbeat = messages.ConsumerGroupHeartbeatRequest


class ClassicSettings:
    group_initial_rebalance_delay_ms = 0
    group_max_size = 1000


class Story:
    """What a shard is on a broker, for one group named g."""

    def __init__(self, **settings: Any) -> None:
        self.now = 0
        self.image = ClusterImage()
        self.image.brokers[0] = BrokerInfo(0, None, {})
        self.chosen = Settings(**{"assignment_interval_ms": 0, **settings})
        self.groups: dict[str, Group] = {}
        self.world = self
        self.timers = Timers()
        self.stored: dict[bytes, bytes] = {}
        self.epochs: dict[str, int] = {}
        self.ids: dict[str, str] = {}
        self._came: list[str] = []
        self._asked = 0
        self._made = 0

    # -- the world, and the shard

    def settings(self, group_id: str) -> Settings:
        return self.chosen

    def now_ms(self) -> int:
        return 1_000_000_000 + self.now

    def classic_group(self, group_id: str) -> ClassicGroup:
        return self.new_core(group_id)

    def new_core(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self.now_ms, lambda: LARGEST)

    def find_or_create(self, group_id: str) -> Group:
        if group_id not in self.groups:
            self.groups[group_id] = Group(group_id, self, self.new_core(group_id))  # type: ignore[arg-type]
        return self.groups[group_id]

    def carry_out(self, group: Group, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Timer(name, None):
                    self.timers.cancel("g", name)
                case Timer(name, at):
                    self.timers.set("g", name, at)
                case Become(core):
                    group.core = core
                case Write(key, None):
                    self.stored.pop(bytes(key), None)
                case Write(key, value):
                    self.stored.pop(bytes(key), None)
                    self.stored[bytes(key)] = bytes(value)
                case Reply(to, message):
                    to(message)
        self.check()

    @property
    def group(self) -> ConsumerGroup:
        core = self.groups["g"].core
        assert isinstance(core, ConsumerGroup)
        return core

    def check(self) -> None:
        """Whatever happens: nobody owns what another does, and targets are of members."""
        core = self.groups["g"].core if "g" in self.groups else None
        if isinstance(core, ConsumerGroup):
            owned = [partition for member in core.members.values() for partition in member.owned()]
            assert len(owned) == len(set(owned)), "a partition has two owners"
            for member in core.members.values():
                assert all(core.owner(*partition) == member.id for partition in member.owned())
            assert set(core.targets) <= set(core.members)

    # -- telling

    def tell(self, story: str) -> None:
        for number, line in enumerate(story.strip().splitlines(), 1):
            event, _, outcome = (part.strip() for part in line.partition("=>"))
            if event:
                came = self.do(event)
                expected = sorted(part.strip() for part in outcome.split(";") if part.strip())
                assert sorted(came) == expected, f"line {number}: {event} => {'; '.join(came)}"

    def do(self, event: str) -> list[str]:
        who, *words = event.split()
        self._came = []
        if who == "wait":
            self._wait(int(words[0]))
        elif who == "topic":
            self._topic(*words)
        elif who == "restart":
            self.restart()
        else:
            options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
            plain = [word for word in words[1:] if "=" not in word]
            getattr(self, "_" + words[0])(who, plain, options)
        return self._came

    def _to(self, who: str) -> Any:
        self._asked += 1
        answered = []

        def answer(message: Any) -> None:
            assert not answered, "answered twice"
            answered.append(message)
            self._came.append(f"{who}: {self._said(who, message)}")

        return answer

    # -- topics and time

    def _topic(self, name: str, count: str) -> None:
        if count == "gone":
            self.image.remove(name)
        else:
            self._made += name not in self.image.topics
            id = self.image.topics[name].id if name in self.image.topics else b"%016d" % self._made
            partitions = [PartitionImage(0, 0, [0], [0]) for _ in range(int(count))]
            self.image.add(TopicImage(name, id, partitions, {}))
        for group in list(self.groups.values()):
            self.carry_out(group, group.core.topics_changed([name], self.now))

    def _wait(self, milliseconds: int) -> None:
        end = self.now + milliseconds
        while (at := self.timers.next()) <= end:
            self.now = max(self.now, at)
            for _, name in self.timers.due(self.now):
                group = self.groups["g"]
                self.carry_out(group, group.core.timer(name, self.now))
        self.now = end

    def restart(self) -> None:
        self.groups, self.timers = {}, Timers()
        for key, value in list(self.stored.items()):
            (restore_classic if kind_of(key) == GROUP_KEY else restore)(self, key, value)  # type: ignore[arg-type]
        for group in self.groups.values():
            self.carry_out(group, group.core.loaded(self.now))

    # -- the consumer protocol

    def _id(self, who: str, options: dict[str, str]) -> str:
        return options.get("id", self.ids.get(who, who))

    def _joins(self, who: str, plain: list[str], options: dict[str, str]) -> None:
        self._send(who, Heartbeat(**self._fields(who, {"epoch": "0", **options}, full=plain[0] if plain else "")))

    def _beats(self, who: str, plain: list[str], options: dict[str, str]) -> None:
        full = "".join(plain[1:]) if plain[:1] == ["full"] else None
        self._send(who, Heartbeat(**self._fields(who, options, full=full)))

    def _leaves(self, who: str, plain: list[str], options: dict[str, str]) -> None:
        epoch = "-2" if "for-a-while" in plain else "-1"
        self._send(who, Heartbeat(**self._fields(who, {"epoch": epoch, **options})))

    def _send(self, who: str, body: Heartbeat) -> None:
        service.heartbeat(self, body, Client(who, f"/{who}", 1), self._to(who), self.now)  # type: ignore[arg-type]

    def _fields(self, who: str, options: dict[str, str], full: str | None = None) -> dict[str, Any]:
        topics = options.get("topics", full)
        owns = options.get("owns", None if full is None else "-")
        return {
            "group_id": "g",
            "member_id": self._id(who, options),
            "member_epoch": int(options.get("epoch", self.epochs.get(who, 0))),
            "instance_id": options.get("instance"),
            "rack_id": options.get("rack"),
            "rebalance_timeout_ms": int(options.get("timeout", -1 if full is None else REBALANCE_MS)),
            "subscribed_topic_names": None if topics is None else [name for name in topics.split(",") if name],
            "subscribed_topic_regex": options.get("regex"),
            "server_assignor": options.get("assignor"),
            "topic_partitions": None
            if owns is None
            else [
                Heartbeat.TopicPartitions(topic_id=self.image.topics[topic].id, partitions=partitions)
                for topic, partitions in _owned(owns).items()
                if topic in self.image.topics
            ],
        }

    # -- the classic protocol

    def _enters(self, who: str, plain: list[str], options: dict[str, str]) -> None:
        owned = [
            messages.ConsumerProtocolSubscription.TopicPartitions(topic=topic, partitions=partitions)
            for topic, partitions in _owned(options.get("owns", "-")).items()
        ]
        topics = [name for name in plain[0].split(",") if name]
        subscription = messages.ConsumerProtocolSubscription(topics=topics, owned_partitions=owned)
        metadata = b"\0\1" + bytes(codec.encode(subscription, 1))
        body = messages.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=CLASSIC_SESSION_MS,
            rebalance_timeout_ms=int(options.get("timeout", REBALANCE_MS)),
            member_id=options.get("id", self.ids.get(who, "")),
            group_instance_id=options.get("instance"),
            protocol_type=options.get("type", "consumer"),
            protocols=[
                messages.JoinGroupRequest.Protocol(name=name, metadata=metadata)
                for name in options.get("protocols", "range").split(",")
            ],
        )
        group = self.find_or_create("g")
        client = Client(who, f"/{who}", int(options.get("v", 9)))
        assert isinstance(group.core, ClassicGroup | ConsumerGroup)
        to = self._to(who)
        effects = group.core.join(body, client, to, self.now, new_id=str(self._asked), settings=ClassicSettings())
        self.carry_out(group, effects)

    def _syncs(self, who: str, plain: list[str], options: dict[str, str]) -> None:
        """A leader of a classic group gives what `plain` says: A=t:0,1 B=t:2."""
        group = self.groups["g"]
        assert isinstance(group.core, ClassicGroup | ConsumerGroup)
        given = []
        for name, owned in options.items():
            if name in self.ids:
                partitions = [
                    messages.ConsumerProtocolAssignment.TopicPartitions(topic=topic, partitions=partitions)
                    for topic, partitions in _owned(owned).items()
                ]
                message = messages.ConsumerProtocolAssignment(assigned_partitions=partitions)
                data = b"\0\1" + bytes(codec.encode(message, 1))
                given.append(messages.SyncGroupRequest.Assignment(member_id=self.ids[name], assignment=data))
        body = messages.SyncGroupRequest(
            group_id="g",
            generation_id=int(options.get("epoch", self.epochs.get(who, 0))),
            member_id=self._id(who, options),
            group_instance_id=options.get("instance"),
            protocol_type=options.get("type"),
            protocol_name=options.get("protocol"),
            assignments=given,
        )
        self.carry_out(group, group.core.sync(body, self._to(who), self.now))

    def _pulses(self, who: str, plain: list[str], options: dict[str, str]) -> None:
        group = self.groups["g"]
        assert isinstance(group.core, ClassicGroup | ConsumerGroup)
        body = messages.HeartbeatRequest(
            group_id="g",
            generation_id=int(options.get("epoch", self.epochs.get(who, 0))),
            member_id=self._id(who, options),
            group_instance_id=options.get("instance"),
        )
        self.carry_out(group, group.core.heartbeat(body, self._to(who), self.now))

    def _quits(self, who: str, plain: list[str], options: dict[str, str]) -> None:
        group = self.groups["g"]
        assert isinstance(group.core, ClassicGroup | ConsumerGroup)
        leaving = [
            messages.LeaveGroupRequest.Member(
                member_id=self._id(who, options), group_instance_id=options.get("instance")
            )
        ]
        effects = group.core.leave(leaving, self._to(who), self.now, version=int(options.get("v", 5)))
        self.carry_out(group, effects)

    # -- offsets

    def _commits(self, who: str, plain: list[str], options: dict[str, str]) -> None:
        result = self.groups["g"].core.commit(
            self._id(who, options),
            options.get("instance"),
            int(options.get("epoch", self.epochs.get(who, 0))),
            self.now,
            version=int(options.get("v", 10)),
            transactional="txn" in plain,
            partitions=[(topic, one) for topic, some in _owned(options.get("of", "-")).items() for one in some],
        )
        self._came.append(f"{who}: {result.name if isinstance(result, ErrorCode) else 'committed'}")

    def _fetches(self, who: str, plain: list[str], options: dict[str, str]) -> None:
        member_id = None if options.get("id") == "" else self._id(who, options)
        code = self.groups["g"].core.fetch(member_id, int(options.get("epoch", self.epochs.get(who, 0))))
        self._came.append(f"{who}: {code.name if code else 'fetched'}")

    # -- answers

    def _said(self, who: str, message: Any) -> str:
        code = ErrorCode(message.error_code)
        if isinstance(message, messages.LeaveGroupResponse):
            return (code or ErrorCode(message.members[0].error_code)).name.replace("NONE", "has quit")
        if isinstance(message, messages.JoinGroupResponse):
            if code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.ids[who] = message.member_id
                self.epochs[who] = message.generation_id
            return code.name if code else f"generation {message.generation_id}"
        if code:
            return code.name
        if isinstance(message, messages.SyncGroupResponse):
            version = int.from_bytes(message.assignment[:2], "big")
            read = codec.decode(messages.ConsumerProtocolAssignment, version, memoryview(message.assignment)[2:])
            return "given " + _shown({one.topic: one.partitions for one in read.assigned_partitions})
        if isinstance(message, messages.HeartbeatResponse):
            return "alive"
        self.ids[who], self.epochs[who] = message.member_id or "", message.member_epoch
        if message.member_epoch < 0:
            return "left"
        names = {topic.id: topic.name for topic in self.image.topics.values()}
        has = ""
        if message.assignment is not None:
            has = " has " + _shown(
                {names.get(one.topic_id, "?"): one.partitions for one in message.assignment.topic_partitions}
            )
        sooner = message.heartbeat_interval_ms
        again = f", again in {sooner}" if sooner != self.chosen.heartbeat_interval_ms else ""
        return f"epoch {message.member_epoch}{has}{again}"


def _owned(text: str) -> dict[str, list[int]]:
    """t:0,1/u:2, or - for nothing."""
    if text in ("-", ""):
        return {}
    parts = (part.split(":") for part in text.split("/"))
    return {topic: [int(one) for one in some.split(",")] for topic, some in parts}


def _shown(partitions: dict[str, Any]) -> str:
    shown = [f"{topic}:{','.join(map(str, sorted(some)))}" for topic, some in sorted(partitions.items()) if some]
    return "/".join(shown) or "nothing"
