"""A transactional producer of version 2 (KIP-890) on raw frames, with the methods of confluent-kafka's that movers use.

It says everything again, on a new connection, until it is answered: what a broker that dies or freezes has done already
it does not do twice.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from time import sleep
from typing import Any

from support.transactional import TRY_AGAIN, Producer, find_coordinator
from support.wire import Wire

NOT_NOW = (*TRY_AGAIN, "COORDINATOR_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION")
LOST_PLACE = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "REBALANCE_IN_PROGRESS")


class Abortable(Exception):
    """The transaction cannot be committed any more, but the producer can go on."""


class Fenced(Exception):
    """The producer cannot go on."""


class RawProducer:
    def __init__(self, bootstrap: str, id: str, timeout_ms: int) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = host, int(port)
        self._timeout_ms = timeout_ms
        self._producer = Producer(None, id)  # type: ignore[arg-type]  # connected when it is first used

    def _do(self, act: Callable[[], Any]) -> None:
        while True:
            try:
                if self._producer.wire is None:
                    self._producer.wire = Wire(*self._address)
                    find_coordinator(self._producer.wire, self._producer.id)
                code = act()
            except (OSError, AssertionError):
                if self._producer.wire is not None:
                    self._producer.wire.close()
                self._producer.wire = None  # type: ignore[assignment]
                sleep(0.02)
                continue
            if code == "NONE":
                return
            if code in LOST_PLACE:
                raise Abortable(code)
            if code not in NOT_NOW:
                raise Fenced(code)
            sleep(0.005)

    def init_transactions(self, _: float) -> None:
        self._do(lambda: self._producer.init(timeout_ms=self._timeout_ms))

    def begin_transaction(self) -> None:
        pass  # the first batch does it

    def produce(self, topic: str, value: str, *, partition: int, on_delivery: Callable[[Any, Any], None]) -> None:
        self._do(lambda: self._producer.send(topic, value, partition=partition))
        on_delivery(None, self)

    def offset(self) -> int:
        """Of what was delivered last."""
        return self._producer.last_offset

    def flush(self, _: float) -> None:
        pass

    def send_offsets_to_transaction(self, places: list[Any], metadata: bytes, _: float) -> None:
        """`metadata` as librdkafka packs it: a word, the generation, group and member."""
        assert metadata.startswith(b"CGMDv"), metadata
        (generation,) = struct.unpack_from("<i", metadata, 7)
        group, member = (part.decode() for part in metadata[11:].split(b"\0")[:2])
        offsets = {(place.topic, place.partition): place.offset for place in places}
        self._do(lambda: self._producer.commit_offsets(group, offsets, member_id=member, generation_id=generation))

    def commit_transaction(self, _: float) -> None:
        self._do(lambda: self._producer.end(True))

    def abort_transaction(self, _: float) -> None:
        self._do(lambda: self._producer.end(False))
