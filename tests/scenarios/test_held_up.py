"""A broker that was held up does not blame its groups' members for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from threading import Timer

from ottla.protocol import messages
from ottla.testing import BrokerProcess
from support.group_wire import GroupMember, find_coordinator
from support.wire import Wire

SESSION_MS = 1000


def test_heartbeats_that_came_while_the_broker_stood_still_count(
    ottla_broker_factory: Callable[..., BrokerProcess],
) -> None:
    broker = ottla_broker_factory(
        overrides={
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": str(SESSION_MS),
            "offsets.topic.num.partitions": "1",
        }
    )
    wire = Wire("127.0.0.1", broker.port)
    find_coordinator(wire, "g")
    member = GroupMember(wire, "g")
    member.join(session_timeout_ms=SESSION_MS)
    member.sync({member.id: b""})
    os.kill(broker.pid, signal.SIGSTOP)
    beat = messages.HeartbeatRequest(group_id="g", generation_id=member.generation, member_id=member.id)
    sent = wire.send(beat, 4)
    Timer(2 * SESSION_MS / 1000, os.kill, (broker.pid, signal.SIGCONT)).start()
    assert wire.receive("Heartbeat", 4, sent).error_code == 0
    assert member.beat() == 0
    wire.close()
