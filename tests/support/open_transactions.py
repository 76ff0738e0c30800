"""Producers of confluent-kafka in the middle of a transaction."""

from __future__ import annotations

from confluent_kafka import Producer

TIMEOUT_MS = 300_000  # longer than any test


def begun(bootstrap: str, transactional_id: str, *topics: str, timestamp: int = 0) -> Producer:
    """A producer with an open transaction, which has a record in each topic."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "transaction.timeout.ms": TIMEOUT_MS}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for topic in topics:
        producer.produce(topic, b"record", timestamp=timestamp)
    assert producer.flush(30) == 0
    return producer
