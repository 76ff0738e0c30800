"""Records of __transaction_state, as another broker would have left them."""

from __future__ import annotations

from typing import Any

from ottla.controller.names import TRANSACTION_STATE
from ottla.protocol.messages import TransactionLogValue
from ottla.protocol.records import Record, build_batch
from ottla.transactions import records


def write_states(served: Any, *values: tuple[str, TransactionLogValue]) -> None:
    """Put records into the log of the coordinator, as another broker would have left them, and start anew."""

    async def append() -> None:
        made = [Record(at, 5, records.key_of(id), records.value_of(value)) for at, (id, value) in enumerate(values)]
        partition = served.broker.partition(TRANSACTION_STATE, 0)
        partition.append(memoryview(build_batch(made)), 5, all_replicas=True, zstd=True, by_broker=True)

    served.run(append())
    served.restart()


def state(producer_id: int, epoch: int, status: int, **more: Any) -> TransactionLogValue:
    return TransactionLogValue(
        **{
            "producer_id": producer_id,
            "previous_producer_id": -1,
            "next_producer_id": -1,
            "producer_epoch": epoch,
            "transaction_timeout_ms": 60_000,
            "transaction_status": status,
            "transaction_partitions": [],
            "transaction_last_update_timestamp_ms": 5,
            "transaction_start_timestamp_ms": 5,
            "client_transaction_version": 2,
            **more,
        }
    )
