"""Clients' metrics on their way from two requests to the figures: the parts of this folder put together.

A push is unpacked and read in a thread, one at a time over all clients, and what it unpacks to is bounded; what is kept
of it is bounded in series.py. The receiver is made when the first client asks.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING

from ottla.broker.telemetry.instances import NO_ID, ClientInstance, ClientInstances
from ottla.broker.telemetry.otlp import Malformed, read_metrics
from ottla.broker.telemetry.series import ClientSeries, Ready, ready
from ottla.broker.telemetry.subscriptions import MAX_ATTRIBUTE, Attributes, Subscription
from ottla.controller.names import id_text, new_id
from ottla.protocol.batch import CorruptBatch
from ottla.protocol.compression import DecompressionTooLarge, decompress
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.dispatch import Request

log = logging.getLogger(__name__)

SWEEP_MS = 10_000
UNPACKED = 4  # times telemetry.max.bytes: what a push may unpack to


class ClientTelemetry:
    def __init__(self, broker: Broker) -> None:
        self.instances = ClientInstances(broker.config.telemetry_max_bytes)
        self.series = ClientSeries()
        self.pushes = 0
        self.refused = 0
        self._broker = broker
        self._configs: dict[str, dict[str, str]] = {}
        self._one_at_a_time = asyncio.Lock()
        broker.housekeeping.every(SWEEP_MS, self.sweep, blocking=False)

    def get(self, request: Request, instance_id: bytes) -> tuple[ErrorCode, ClientInstance]:
        self._look_at_configs()
        if instance_id == NO_ID:
            instance_id = new_id()
        return self.instances.get(instance_id, _attributes(request, instance_id), self._now())

    async def push(
        self, request: Request, instance_id: bytes, subscription_id: int, terminating: bool, codec: int, metrics: bytes
    ) -> ErrorCode:
        self._look_at_configs()
        error, instance = self.instances.push(
            instance_id,
            _attributes(request, instance_id),
            self._now(),
            subscription_id=subscription_id,
            terminating=terminating,
            codec=codec,
            size=len(metrics),
        )
        if error is ErrorCode.NONE and instance is not None and metrics:
            error = instance.last_error = await self._take(instance, codec, metrics)
        if error is ErrorCode.NONE:
            self.pushes += 1
        else:
            self.refused += 1
        return error

    async def _take(self, instance: ClientInstance, codec: int, metrics: bytes) -> ErrorCode:
        limit = UNPACKED * self.instances.max_bytes
        try:
            async with self._one_at_a_time:
                points, dropped = await self._broker.run_blocking(_read, codec, metrics, limit)
        except DecompressionTooLarge:
            return ErrorCode.TELEMETRY_TOO_LARGE
        except (CorruptBatch, Malformed) as error:
            log.debug("metrics of client instance %s cannot be read: %s", id_text(instance.id), error)
            return ErrorCode.INVALID_RECORD
        if instance.id in self.instances:
            self.series.take(instance.id, instance.attributes, points, dropped)
        return ErrorCode.NONE

    def sweep(self) -> None:
        """Forget clients that have gone silent, and what they have pushed."""
        self.instances.expire(self._now())
        for instance_id in self.series.instances:
            if instance_id not in self.instances:
                self.series.forget(instance_id)

    def _look_at_configs(self) -> None:
        current = self._broker.image.client_metrics
        if current != self._configs:
            self._configs = {name: dict(configs) for name, configs in current.items()}
            self.instances.subscribe({name: Subscription.of(configs) for name, configs in current.items()})

    @staticmethod
    def _now() -> int:
        return int(monotonic() * 1000)


def _attributes(request: Request, instance_id: bytes) -> Attributes:
    software = request.connection.data.get("client_software")
    name, version = software if isinstance(software, tuple) else (None, None)
    address, port = request.connection.peer
    found = {
        "client_id": request.client_id,
        "client_instance_id": id_text(instance_id),
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": address,
        "client_source_port": str(port),
    }
    return {key: value[:MAX_ATTRIBUTE] if value is not None else None for key, value in found.items()}


def _read(codec: int, metrics: bytes, limit: int) -> tuple[list[Ready], int]:
    return ready(read_metrics(decompress(codec, metrics, limit)))
