"""aiokafka, on an event loop that runs while it is asked for something."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from ottla.protocol.records import Record
from support.clients.client import LARGEST, PATIENCE, ClientError, Modern

T = TypeVar("T")


class AioKafkaClient(Modern):
    name = "aiokafka"

    def connect(self, bootstrap: str, *, patience: float = PATIENCE) -> ConnectedAioKafka:
        return ConnectedAioKafka(bootstrap, patience)


class ConnectedAioKafka:
    def __init__(self, bootstrap: str, patience: float) -> None:
        self.patience = patience
        self.common = {"bootstrap_servers": bootstrap, "metadata_max_age_ms": 500}
        self.producers: dict[str, AIOKafkaProducer] = {}
        self.consumer: AIOKafkaConsumer | None = None
        self.runner = asyncio.Runner()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        async def in_time() -> T:
            async with asyncio.timeout(self.patience):
                return await work

        try:
            return self.runner.run(in_time())
        except (KafkaError, AssertionError, TimeoutError) as error:
            raise ClientError(repr(error), getattr(error, "errno", None)) from error

    def write(self, topic: str, records: list[Record], *, partition: int = 0, codec: str = "none") -> None:
        self._run(self._write(topic, records, partition, codec))

    async def _write(self, topic: str, records: list[Record], partition: int, codec: str) -> None:
        if codec not in self.producers:
            self.producers[codec] = AIOKafkaProducer(
                **self.common,
                compression_type=None if codec == "none" else codec,
                acks="all",
                max_request_size=LARGEST,
                max_batch_size=LARGEST,
                linger_ms=2,
                request_timeout_ms=int(self.patience * 900),
            )
            await self.producers[codec].start()
        producer = self.producers[codec]
        sent = [
            await producer.send(
                topic,
                record.value,
                record.key,
                partition=partition,
                timestamp_ms=record.timestamp,
                headers=list(record.headers),
            )
            for record in records
        ]
        for future in sent:
            await future

    def read(self, topic: str, *, partition: int = 0, since: int | None = None) -> list[Record]:
        return self._run(self._read(TopicPartition(topic, partition), since))

    async def _read(self, where: TopicPartition, since: int | None) -> list[Record]:
        if self.consumer is None:
            self.consumer = AIOKafkaConsumer(
                **self.common,
                group_id=None,
                auto_offset_reset="earliest",
                max_partition_fetch_bytes=LARGEST,
                fetch_max_bytes=LARGEST,
                fetch_max_wait_ms=10,
            )
            await self.consumer.start()
        consumer = self.consumer
        consumer.assign([where])
        end = (await consumer.end_offsets([where]))[where]
        if since is not None:
            found = (await consumer.offsets_for_times({where: since}))[where]
            consumer.seek(where, end if found is None else found.offset)
        records = []
        while await consumer.position(where) < end:
            for batch in (await consumer.getmany(timeout_ms=1000)).values():
                records += [Record(one.offset, one.timestamp, one.key, one.value, tuple(one.headers)) for one in batch]
        return records

    def close(self) -> None:
        async def stop() -> None:
            if self.consumer is not None:
                await self.consumer.stop()
            for producer in self.producers.values():
                await producer.stop()

        self._run(stop())
        self.runner.close()
