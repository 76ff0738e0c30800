"""kafka-python 3."""

from __future__ import annotations

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from ottla.protocol.records import Record
from support.clients.client import LARGEST, PATIENCE, ClientError, Modern


class KafkaPythonClient(Modern):
    name = "kafka-python"

    def connect(self, bootstrap: str, *, patience: float = PATIENCE) -> ConnectedKafkaPython:
        return ConnectedKafkaPython(bootstrap, patience)


class ConnectedKafkaPython:
    def __init__(self, bootstrap: str, patience: float) -> None:
        self.patience = patience
        self.common = {
            "bootstrap_servers": bootstrap,
            "reconnect_backoff_max_ms": 500,
            "request_timeout_ms": int(patience * 900),
            "metadata_max_age_ms": 500,
        }
        self.producers: dict[str, KafkaProducer] = {}
        self.consumer = KafkaConsumer(
            **self.common,
            group_id=None,
            fetch_max_wait_ms=10,
            max_partition_fetch_bytes=LARGEST,
            fetch_max_bytes=LARGEST,
            allow_auto_create_topics=False,
        )

    def write(self, topic: str, records: list[Record], *, partition: int = 0, codec: str = "none") -> None:
        if codec not in self.producers:
            self.producers[codec] = KafkaProducer(
                **self.common,
                compression_type=None if codec == "none" else codec,
                max_request_size=LARGEST,
                max_block_ms=int(self.patience * 1000),
                delivery_timeout_ms=int(self.patience * 1000),
                linger_ms=2,
            )
        producer = self.producers[codec]
        try:
            sent = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    partition=partition,
                    timestamp_ms=record.timestamp,
                )
                for record in records
            ]
            for future in sent:
                future.get(self.patience)
        except (KafkaError, ValueError) as error:
            raise ClientError(repr(error), getattr(error, "errno", None)) from error

    def read(self, topic: str, *, partition: int = 0, since: int | None = None) -> list[Record]:
        where = TopicPartition(topic, partition)
        patience_ms = int(self.patience * 1000)
        try:
            if self.consumer.partitions_for_topic(topic) is None:
                raise ClientError(f"there is no topic {topic}")
            self.consumer.assign([where])
            end = self.consumer.end_offsets([where], timeout_ms=patience_ms)[where]
            if since is None:
                self.consumer.seek_to_beginning(where)
            else:
                found = self.consumer.offsets_for_times({where: since}, timeout_ms=patience_ms)[where]
                self.consumer.seek(where, end if found is None else found.offset)
            records = []
            while self.consumer.position(where) < end:
                for batch in self.consumer.poll(patience_ms).values():
                    records += [
                        Record(one.offset, one.timestamp, one.key, one.value, tuple(map(tuple, one.headers)))
                        for one in batch
                    ]
            return records
        except (KafkaError, ValueError) as error:
            raise ClientError(repr(error), getattr(error, "errno", None)) from error

    def close(self) -> None:
        self.consumer.close(autocommit=False)
        for producer in self.producers.values():
            producer.close(timeout=1)
