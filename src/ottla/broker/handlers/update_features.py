"""UpdateFeatures (57), versions 0-2.

Other levels of features (KIP-584): all of the request holds, or nothing does. What is checked, and with which errors:
controller/features.py. What holds is stored, and shown by ApiVersions.

- v0: `allow_downgrade`. v1: the kind of change, and `validate_only`.
- v0-1: a result for each feature, where there is no error. v2: the error of the request alone.
- A request that takes longer than its timeout is answered REQUEST_TIMED_OUT; the work goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.deadlines import within
from ottla.broker.dispatch import Request, handles
from ottla.controller.features import FeaturesResult, FeatureUpdate, UpgradeType
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Response = messages.UpdateFeaturesResponse


@handles("UpdateFeatures", 0, 2)
async def update_features(
    broker: Broker, request: Request, body: messages.UpdateFeaturesRequest
) -> messages.UpdateFeaturesResponse:
    updates = [
        FeatureUpdate(one.feature, one.max_version_level, _upgrade_type(one, request.version))
        for one in body.feature_updates
    ]
    work = broker.controller.update_features(updates, validate_only=body.validate_only)
    result = await within(body.timeout_ms, work)
    if result is None:
        result = FeaturesResult(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT.message)
    done = updates if result.error_code == ErrorCode.NONE else []
    return Response(
        error_code=result.error_code,
        error_message=result.message,
        results=[
            Response.Result(feature=update.feature, error_code=ErrorCode.NONE, error_message=None) for update in done
        ],
    )


def _upgrade_type(asked: messages.UpdateFeaturesRequest.FeatureUpdate, version: int) -> int:
    if version == 0:
        return UpgradeType.SAFE_DOWNGRADE if asked.allow_downgrade else UpgradeType.UPGRADE
    return asked.upgrade_type
