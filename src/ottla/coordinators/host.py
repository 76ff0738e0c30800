"""What a coordinator needs of its broker."""

from __future__ import annotations

import asyncio
from typing import Protocol

from ottla.config.broker import BrokerConfig
from ottla.controller.controller import Controller
from ottla.controller.image import ClusterImage
from ottla.replication.partition import Partition


class Host(Protocol):
    """`config` is looked at on every use: it may change."""

    loop: asyncio.AbstractEventLoop
    controller: Controller

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def image(self) -> ClusterImage: ...

    def partition(self, topic: str, index: int) -> Partition | None: ...

    def now_ms(self) -> int: ...
