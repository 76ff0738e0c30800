"""PushTelemetry (72), version 0 (KIP-714).

A client's metrics: OpenTelemetry's MetricsData, packed in one of Kafka's codecs or not. They are shown at the metrics
listener as long as the client comes back (broker/telemetry/series.py). What cannot be unpacked or read is
INVALID_RECORD, what unpacks to far more than telemetry.max.bytes TELEMETRY_TOO_LARGE; broker/telemetry/instances.py
says what else is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.dispatch import Request, handles
from ottla.protocol import messages

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@handles("PushTelemetry", 0, 0)
async def push_telemetry(
    broker: Broker, request: Request, body: messages.PushTelemetryRequest
) -> messages.PushTelemetryResponse:
    error = await broker.telemetry.push(
        request,
        body.client_instance_id,
        body.subscription_id,
        body.terminating,
        body.compression_type,
        body.metrics,
    )
    return messages.PushTelemetryResponse(error_code=error)
