"""confluent-kafka, on librdkafka."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from ottla.protocol.records import Record
from support.clients.client import LARGEST, PATIENCE, ClientError, Modern


class ConfluentClient(Modern):
    name = "confluent-kafka"

    def connect(self, bootstrap: str, *, patience: float = PATIENCE) -> ConnectedConfluent:
        return ConnectedConfluent(bootstrap, patience)


class ConnectedConfluent:
    def __init__(self, bootstrap: str, patience: float) -> None:
        self.patience = patience
        self.common = {
            "bootstrap.servers": bootstrap,
            "log_level": 2,
            "topic.metadata.refresh.interval.ms": 500,
            "topic.metadata.propagation.max.ms": int(patience * 500),
            "reconnect.backoff.max.ms": 500,
        }
        self.producers: dict[str, Producer] = {}
        self.consumer = Consumer(
            {
                **self.common,
                "group.id": "none",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.message.max.bytes": LARGEST,
                "fetch.wait.max.ms": 10,
            }
        )

    def write(self, topic: str, records: list[Record], *, partition: int = 0, codec: str = "none") -> None:
        if codec not in self.producers:
            self.producers[codec] = Producer(
                {
                    **self.common,
                    "compression.type": codec,
                    "acks": "all",
                    "message.max.bytes": LARGEST,
                    "message.timeout.ms": int(self.patience * 1000),
                }
            )
        producer = self.producers[codec]
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error)

        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                on_delivery=delivered,
                timestamp=record.timestamp,
                headers=list(record.headers),
            )
        left = producer.flush(self.patience + 5)
        if left:
            raise ClientError(f"{left} records are not delivered")
        if errors:
            raise ClientError(errors[0].str(), errors[0].code())

    def read(self, topic: str, *, partition: int = 0, since: int | None = None) -> list[Record]:
        start = TopicPartition(topic, partition, 0 if since is None else since)
        try:
            if since is not None:
                (start,) = self.consumer.offsets_for_times([start], self.patience)
                if start.error is not None:
                    raise KafkaException(start.error)
            self.consumer.assign([start])
            records = []
            while True:
                message = self.consumer.poll(self.patience)
                if message is None:
                    raise ClientError("nothing came")
                error = message.error()
                if error is None:
                    headers = tuple((name, value) for name, value in message.headers() or ())
                    records.append(
                        Record(message.offset(), message.timestamp()[1], message.key(), message.value(), headers)
                    )
                elif error.code() == KafkaError._PARTITION_EOF:
                    return records
                else:
                    raise KafkaException(error)
        except KafkaException as error:
            raise ClientError(error.args[0].str(), error.args[0].code()) from error
        finally:
            self.consumer.unassign()

    def close(self) -> None:
        self.consumer.close()
        for producer in self.producers.values():
            producer.purge()
            producer.flush(self.patience)
