"""Stories about a classic group, told to its core under a clock of their own: no sockets, no waiting.

Each line is an event, and behind `=>` all that comes of it, in any order:

    A joins                 => A: MEMBER_ID_REQUIRED
    A joins
    wait 3000               => A: generation 1, leads A
    A syncs A=p0,p1         => stored Stable 1 A; A: given p0,p1
    A beats                 => A: alive
    wait 10000              => stored Empty 2

`A joins` speaks as client A with the member id that it was last told, at the newest version, with the protocol range.
Words behind it say otherwise: v=3, id=X (of client X; `id=` none; `id=?` one that nobody has), instance=i,
protocols=range,sticky, type=connect, session=MS, rebalance=MS, generation=N. `wait` lets time pass, and timers come.
"""

from __future__ import annotations

from typing import Any

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.requests import Client
from ottla.groups.effects import Effect, Reply, Timer, Write
from ottla.groups.records import read_group_value
from ottla.groups.timers import Timers
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

NEWEST_JOIN, NEWEST_LEAVE, NEWEST_COMMIT = 9, 5, 10
LARGEST = 1_000_000


class Settings:
    def __init__(self, delay: int, size: int) -> None:
        self.group_initial_rebalance_delay_ms = delay
        self.group_max_size = size


class GroupStory:
    def __init__(self, *, delay: int = 3000, size: int = 1000, largest: int = LARGEST) -> None:
        self.now = 0
        self.settings = Settings(delay, size)
        self.group = ClassicGroup("g", lambda: 1_000_000 + self.now, lambda: largest)
        self.timers = Timers()
        self.ids: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.waiting: set[Any] = set()
        self.stored: bytes | None = None
        self._asked = 0

    def tell(self, story: str) -> None:
        for number, line in enumerate(story.strip().splitlines(), 1):
            event, _, outcome = (part.strip() for part in line.partition("=>"))
            if event:
                came = self.do(event)
                expected = sorted(part.strip() for part in outcome.split(";") if part.strip())
                assert sorted(came) == expected, f"line {number}: {event} => {'; '.join(came)}"

    def do(self, event: str) -> list[str]:
        who, *words = event.split()
        if who == "wait":
            return self._wait(int(words[0]))
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        effects: list[Effect] = getattr(self, "_" + words[0])(who, options)
        return self._carry_out(effects)

    # -- events

    def _to(self, who: str) -> Any:
        self._asked += 1
        to = (who, self._asked)
        self.waiting.add(to)
        return to

    def _id(self, who: str, options: dict[str, str]) -> str:
        named = options.get("id")
        if named is None:
            return self.ids.get(who, "")
        return "nobody" if named == "?" else self.ids[named] if named else ""

    def _generation(self, who: str, options: dict[str, str]) -> int:
        return int(options.get("generation", self.generations.get(who, 0)))

    def _joins(self, who: str, options: dict[str, str]) -> list[Effect]:
        body = messages.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=int(options.get("session", 10_000)),
            rebalance_timeout_ms=int(options.get("rebalance", 60_000)),
            member_id=self._id(who, options),
            group_instance_id=options.get("instance"),
            protocol_type=options.get("type", "consumer"),
            protocols=[
                messages.JoinGroupRequest.Protocol(name=name, metadata=options.get("metadata", who).encode())
                for name in options.get("protocols", "range").split(",")
                if name
            ],
        )
        client = Client(who, f"/{who}", int(options.get("v", NEWEST_JOIN)))
        to = self._to(who)
        new_id = str(self._asked)
        self.names[f"{body.group_instance_id or who}-{new_id}"] = who
        return self.group.join(body, client, to, self.now, new_id=new_id, settings=self.settings)

    def _syncs(self, who: str, options: dict[str, str]) -> list[Effect]:
        known = ("id", "generation", "instance", "type", "protocol")
        body = messages.SyncGroupRequest(
            group_id="g",
            generation_id=self._generation(who, options),
            member_id=self._id(who, options),
            group_instance_id=options.get("instance"),
            protocol_type=options.get("type"),
            protocol_name=options.get("protocol"),
            assignments=[
                messages.SyncGroupRequest.Assignment(member_id=self.ids.get(name, name), assignment=given.encode())
                for name, given in options.items()
                if name not in known
            ],
        )
        return self.group.sync(body, self._to(who), self.now)

    def _beats(self, who: str, options: dict[str, str]) -> list[Effect]:
        body = messages.HeartbeatRequest(
            group_id="g",
            generation_id=self._generation(who, options),
            member_id=self._id(who, options),
            group_instance_id=options.get("instance"),
        )
        return self.group.heartbeat(body, self._to(who), self.now)

    def _leaves(self, who: str, options: dict[str, str]) -> list[Effect]:
        leaving = [
            messages.LeaveGroupRequest.Member(
                member_id=self._id(who, options), group_instance_id=options.get("instance"), reason="for the story"
            )
        ]
        version = int(options.get("v", NEWEST_LEAVE))
        return self.group.leave(leaving, self._to(who), self.now, version=version)

    def _commits(self, who: str, options: dict[str, str]) -> list[Effect]:
        result = self.group.commit(
            self._id(who, options),
            options.get("instance"),
            self._generation(who, options),
            self.now,
            version=NEWEST_COMMIT,
            transactional="txn" in options,
        )
        if isinstance(result, ErrorCode):
            return [Reply(self._to(who), result)]
        return [*result, Reply(self._to(who), ErrorCode.NONE)]

    def _wait(self, milliseconds: int) -> list[str]:
        end, came = self.now + milliseconds, []
        while (at := self.timers.next()) <= end:
            self.now = max(self.now, at)
            for _, name in self.timers.due(self.now):
                came += self._carry_out(self.group.timer(name, self.now))
        self.now = end
        return came

    def restart(self) -> None:
        """The broker is gone and comes back with what was stored."""
        self.timers, self.waiting = Timers(), set()
        self.group = ClassicGroup("g", lambda: 1_000_000 + self.now, lambda: LARGEST)
        if self.stored is not None:
            self.group.take(read_group_value(self.stored))
        self._carry_out(self.group.loaded(self.now))

    # -- outcomes

    def _carry_out(self, effects: list[Effect]) -> list[str]:
        came = []
        for effect in effects:
            match effect:
                case Timer(name, None):
                    self.timers.cancel("g", name)
                case Timer(name, at):
                    self.timers.set("g", name, at)
                case Write(_, value):
                    self.stored = value
                    assert value is not None
                    read = read_group_value(value)
                    members = " ".join(self._name(one.member_id) for one in read.members)
                    state = "Stable" if read.members else "Empty"
                    came.append(f"stored {state} {read.generation} {members}".strip())
                case Reply(to, message):
                    assert to in self.waiting, "answered twice"
                    self.waiting.remove(to)
                    came.append(f"{to[0]}: {self._said(to[0], message)}")
        return came

    def _name(self, member_id: str) -> str:
        return self.names.get(member_id, member_id)

    def _said(self, who: str, message: Any) -> str:
        if isinstance(message, ErrorCode):
            return message.name if message else "committed"
        code = ErrorCode(message.error_code)
        if isinstance(message, messages.JoinGroupResponse):
            if code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.ids[who] = message.member_id
            if code:
                return code.name
            self.generations[who] = message.generation_id
            skips = ", skips" if message.skip_assignment else ""
            if message.members:
                told = " ".join(self._name(one.member_id) for one in message.members)
                return f"generation {message.generation_id}, leads {told}{skips}"
            return f"generation {message.generation_id}, follows {self._name(message.leader)}{skips}"
        if isinstance(message, messages.SyncGroupResponse):
            return code.name if code else f"given {message.assignment.decode()}".strip()
        if isinstance(message, messages.LeaveGroupResponse):
            return (code or ErrorCode(message.members[0].error_code)).name.replace("NONE", "left")
        return code.name.replace("NONE", "alive")
