"""ApiVersions (18), versions 0-4.

Which requests this broker serves, in which versions: the client's first question. The answer is the registry itself.

- v0-2: no header tags, no client software. v3+: flexible, but the response header stays at version 0, since a client
  must be able to read it before it knows what the broker speaks (KIP-511).
- A version newer than 4 is answered in version 0 with UNSUPPORTED_VERSION and the range of ApiVersions alone (KIP-511).
- The two requests about clients' own metrics are listed while somebody subscribes to such metrics: librdkafka says a
  line about itself wherever it sees them.
- v3+: the client says what software it is, and the connection remembers it. A name or version that is empty or oddly
  spelled gets INVALID_REQUEST.
- v3+: the features with levels that are supported, and those that hold (KIP-584; controller/features.py). All of ours
  can be off, which is level 0; clients before v4 cannot read a range that starts there, so they are told only what
  holds (KAFKA-17492).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.broker.dispatch import API_VERSIONS, ROUTES, Request, handles
from ottla.controller.features import SUPPORTED, finalized, offered
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

TELEMETRY = ("GetTelemetrySubscriptions", "PushTelemetry")
_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles("ApiVersions", 0, 4)
def api_versions(broker: Broker, request: Request, body: messages.ApiVersionsRequest) -> messages.ApiVersionsResponse:
    if request.version >= 3 and not (
        _SOFTWARE_NAME.fullmatch(body.client_software_name) and _SOFTWARE_NAME.fullmatch(body.client_software_version)
    ):
        return messages.ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if request.version >= 3:
        request.connection.data["client_software"] = (body.client_software_name, body.client_software_version)
    return messages.ApiVersionsResponse(
        api_keys=[
            messages.ApiVersionsResponse.ApiVersion(
                api_key=route.api_key, min_version=route.lowest, max_version=route.highest
            )
            for route in sorted(ROUTES.values(), key=lambda route: route.api_key)
            if broker.image.client_metrics or route.name not in TELEMETRY
        ],
        supported_features=[
            messages.ApiVersionsResponse.SupportedFeature(name=name, min_version=0, max_version=feature.highest)
            for name, feature in offered(SUPPORTED).items()
            if request.version >= 4
        ],
        finalized_features_epoch=broker.image.features_epoch,
        finalized_features=[
            messages.ApiVersionsResponse.FinalizedFeature(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized(broker.image.features, SUPPORTED).items()
        ],
    )


def unsupported_version() -> messages.ApiVersionsResponse:
    route = ROUTES[API_VERSIONS]
    return messages.ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[
            messages.ApiVersionsResponse.ApiVersion(
                api_key=API_VERSIONS, min_version=route.lowest, max_version=route.highest
            )
        ],
    )
