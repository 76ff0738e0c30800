"""ListGroups (16), versions 0-5.

All groups of this broker. v4: their states, and only those in given states (KIP-518). v5: their types, and only those
of given types (KIP-848). Case does not matter in either. COORDINATOR_LOAD_IN_PROGRESS while some are being loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@handles("ListGroups", 0, 5)
def list_groups(broker: Broker, request: Request, body: messages.ListGroupsRequest) -> messages.ListGroupsResponse:
    if broker.groups.shards.is_loading:
        return messages.ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {state.lower() for state in body.states_filter}
    types = {type.lower() for type in body.types_filter}
    return messages.ListGroupsResponse(
        groups=[
            messages.ListGroupsResponse.Group(
                group_id=group.id,
                protocol_type=group.core.protocol_type,
                group_state=group.core.state_name,
                group_type=group.core.type,
            )
            for group in broker.groups.groups()
            if (not states or group.core.state_name.lower() in states) and (not types or group.core.type in types)
        ]
    )
