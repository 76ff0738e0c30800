"""GetTelemetrySubscriptions (71), version 0 (KIP-714).

A client asks which of its own metrics it is to push, how often, and packed how; who has no id yet is given one. Without
a subscription that matches it the answer is an empty list, and the client asks again after the interval.
broker/telemetry/instances.py says what is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@handles("GetTelemetrySubscriptions", 0, 0)
def get_telemetry_subscriptions(
    broker: Broker, request: Request, body: messages.GetTelemetrySubscriptionsRequest
) -> messages.GetTelemetrySubscriptionsResponse:
    from ottla.broker.telemetry.instances import ACCEPTED_CODECS  # most brokers are never asked

    error, instance = broker.telemetry.get(request, body.client_instance_id)
    if error is not ErrorCode.NONE:
        return messages.GetTelemetrySubscriptionsResponse(error_code=error)
    return messages.GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.id,
        subscription_id=instance.wanted.id,
        accepted_compression_types=list(ACCEPTED_CODECS),
        push_interval_ms=instance.wanted.interval_ms,
        telemetry_max_bytes=broker.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=list(instance.wanted.metrics),
    )
