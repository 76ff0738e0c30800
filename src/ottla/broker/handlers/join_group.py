"""JoinGroup (11), versions 0-9.

A member joins a group, or joins again; the answer waits until all have (groups/classic/group.py has the rules).

- v1: a timeout for rebalances beside that of the session. v4: a new member is first told its id: MEMBER_ID_REQUIRED
  (KIP-394). v5: static members. v7: the protocol's type in the answer. v8: a reason, which is logged. v9: a static
  leader that comes back need not assign (KIP-814).

    empty group id                                          INVALID_GROUP_ID
    session timeout out of the broker's bounds              INVALID_SESSION_TIMEOUT
    a member id, and there is no such group or member       UNKNOWN_MEMBER_ID
    no protocol that all members know, another type         INCONSISTENT_GROUP_PROTOCOL
    group.max.size is reached                               GROUP_MAX_SIZE_REACHED
    another has taken the instance id                       FENCED_INSTANCE_ID
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import uuid4

from ottla.broker.dispatch import Deferred, Request, handles
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.requests import Client, join_error
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.effects import Become
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.groups.group import Group

log = logging.getLogger(__name__)


@handles("JoinGroup", 0, 9)
def join_group(
    broker: Broker, request: Request, body: messages.JoinGroupRequest
) -> messages.JoinGroupResponse | Deferred:
    group = _find(broker, body)
    if isinstance(group, ErrorCode):
        return join_error(group, body.member_id, request.version)
    core = group.core
    if isinstance(core, ConsumerGroup) and not core.members:
        # An empty group is what the next member takes it for.
        old, core = core, group.shard.new_core(group.id)
        broker.groups.carry_out(group, [*old.tombstones(), Become(core)])
    if not isinstance(core, ClassicGroup | ConsumerGroup):
        return join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, body.member_id, request.version)
    if body.reason:
        log.info("group %s: %s joins: %s", body.group_id, body.member_id or request.client_id, body.reason)
    client = Client(request.client_id or "", request.client_host, request.version)
    deferred = Deferred(request)
    effects = core.join(body, client, deferred, broker.groups.now(), new_id=str(uuid4()), settings=broker.config)
    broker.groups.carry_out(group, effects)
    return deferred


def _find(broker: Broker, body: messages.JoinGroupRequest) -> Group | ErrorCode:
    if not body.group_id:
        return ErrorCode.INVALID_GROUP_ID
    shard = broker.groups.shard_of(body.group_id)
    if isinstance(shard, ErrorCode):
        broker.groups.topic.begin()
        return shard
    config = broker.config
    if not config.group_min_session_timeout_ms <= body.session_timeout_ms <= config.group_max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if body.member_id and body.group_id not in shard.groups:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return shard.find_or_create(body.group_id)
