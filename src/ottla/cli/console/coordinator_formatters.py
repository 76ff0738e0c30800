"""Formatters of the console consumer for the topics of coordinators (A3 CO19, CO20).

    OffsetsMessageFormatter          committed offsets         __consumer_offsets
    GroupMetadataMessageFormatter    classic groups            __consumer_offsets
    TransactionLogMessageFormatter   transactions              __transaction_state

By Kafka 4's names (`org.apache.kafka.tools.consumer.…`) they write JSON, a line for each record of theirs; Kafka puts
nothing between records. By the older names, offsets are written as those releases wrote them:

    kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter
        [group,topic,0]::OffsetAndMetadata(offset=5, leaderEpoch=Optional[0], metadata=, commitTimestamp=…,
        expireTimestamp=None)
    kafka.coordinator.GroupMetadataManager$OffsetsMessageFormatter
        [group,topic,0]::[OffsetMetadata[5,NO_METADATA],CommitTime …,ExpirationTime …]

Records have not held an expiry since Kafka 2.0; the last form adds the default of `offsets.retention.minutes` to the
commit time, or what the property of that name says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO

from ottla.cli.common.coordinator_records import (
    GROUP_METADATA,
    GROUP_RECORDS,
    OFFSET_COMMIT,
    TRANSACTION_RECORDS,
    CoordinatorRecord,
    UnknownRecord,
    UnreadableRecord,
    read,
)
from ottla.cli.common.invocation import Misconfigured
from ottla.cli.console.serialization import Unserializable

if TYPE_CHECKING:
    from confluent_kafka import Message

RETENTION_MINUTES = "10080"


class _Json:
    KINDS: dict[int, str] = GROUP_RECORDS
    WANTED: tuple[int, ...] = ()

    def configure(self, properties: Mapping[str, str]) -> None:
        pass

    def write_to(self, message: Message, output: BinaryIO) -> None:
        key, value = message.key(), message.value()
        if key is None:
            return
        assert isinstance(key, bytes)
        assert value is None or isinstance(value, bytes)
        try:
            record = read(self.KINDS, key, value)
        except UnknownRecord:
            return
        except UnreadableRecord as error:
            raise Unserializable(f"Could not read record at offset {message.offset()} due to: {error}") from error
        if record.kind in self.WANTED:
            output.write(self.line(record).encode() + b"\n")

    def line(self, record: CoordinatorRecord) -> str:
        value = None if record.value is None else {"version": record.version, "data": record.value}
        shown = {"key": {"type": record.kind, "data": record.key}, "value": value}
        return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)

    def close(self) -> None:
        pass


class OffsetsMessageFormatter(_Json):
    WANTED = OFFSET_COMMIT


class GroupMetadataMessageFormatter(_Json):
    WANTED = (GROUP_METADATA,)


class TransactionLogMessageFormatter(_Json):
    KINDS = TRANSACTION_RECORDS
    WANTED = tuple(TRANSACTION_RECORDS)


class OffsetsOfKafka2(OffsetsMessageFormatter):
    def line(self, record: CoordinatorRecord) -> str:
        if record.value is None:
            return f"{_place(record)}::null"
        epoch = record.value.get("leaderEpoch", -1)
        expiry = record.value.get("expireTimestamp", -1)
        return (
            f"{_place(record)}::OffsetAndMetadata(offset={record.value['offset']}, "
            f"leaderEpoch={f'Optional[{epoch}]' if epoch >= 0 else 'Optional.empty'}, "
            f"metadata={record.value['metadata']}, commitTimestamp={record.value['commitTimestamp']}, "
            f"expireTimestamp={f'Some({expiry})' if expiry >= 0 else 'None'})"
        )


class OffsetsOfKafka010(OffsetsMessageFormatter):
    def configure(self, properties: Mapping[str, str]) -> None:
        minutes = properties.get("offsets.retention.minutes", RETENTION_MINUTES)
        if not minutes.isdigit():
            raise Misconfigured(f"offsets.retention.minutes={minutes} is illegal: must be a whole number")
        self._retention_ms = int(minutes) * 60_000

    def line(self, record: CoordinatorRecord) -> str:
        if record.value is None:
            return f"{_place(record)}::NULL"
        committed = record.value["commitTimestamp"]
        expiry = record.value.get("expireTimestamp", -1)
        return (
            f"{_place(record)}::[OffsetMetadata[{record.value['offset']},{record.value['metadata'] or 'NO_METADATA'}],"
            f"CommitTime {committed},ExpirationTime {expiry if expiry >= 0 else committed + self._retention_ms}]"
        )


def _place(record: CoordinatorRecord) -> str:
    return f"[{record.key['group']},{record.key['topic']},{record.key['partition']}]"


FORMATTERS: dict[str, type] = {
    "kafka.coordinator.GroupMetadataManager$OffsetsMessageFormatter": OffsetsOfKafka010,
    "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter": OffsetsOfKafka2,
    "OffsetsMessageFormatter": OffsetsMessageFormatter,
    "GroupMetadataMessageFormatter": GroupMetadataMessageFormatter,
    "TransactionLogMessageFormatter": TransactionLogMessageFormatter,
}
