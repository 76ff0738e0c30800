"""What the metadata log of a KRaft node says: topics, partitions, configs. Read only, for `ottla adopt`.

    __cluster_metadata-0/
      <20 digits>.log                      batches of format 2, as in any log
      <offset, 20 digits>-<epoch>.checkpoint   a snapshot of all records below that offset, in the same form
      quorum-state                         JSON; its voters, while they are fixed by configuration

A record's value is frame version (1), record type and its version, each an unsigned varint, then the record in that
version's flexible form. The newest snapshot and the log behind it make the state. Records between BeginTransaction
and EndTransaction count when the latter is there (KIP-868). With one voter a record counts once it is in the log; what
a crash tore off at the end was never acknowledged.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ottla.protocol import codec, messages
from ottla.protocol.batch import BatchHeader, check
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records import iter_records
from ottla.storage.dump import SegmentReader

DIRECTORY = "__cluster_metadata-0"
CHECKPOINT_SUFFIX = ".checkpoint"
QUORUM_STATE = "quorum-state"
METADATA_VERSION = "metadata.version"
FRAME_VERSION = 1
BATCH_LIMIT = 512 * 1024 * 1024

TOPIC = 2  # among the types of resources that have configs
UNCHANGED = -2

# Directories of partitions that are no directories (KIP-858).
MIGRATING, UNASSIGNED, LOST = (number.to_bytes(16, "big") for number in range(3))

_INT32 = struct.Struct(">i")

RECORDS = {
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    9: "RemoveTopicRecord",
    12: "FeatureLevelRecord",
    15: "ProducerIdsRecord",
    28: "ClearElrRecord",
}
REGISTER_BROKER, UNREGISTER_BROKER, REGISTER_CONTROLLER = 0, 1, 27  # each begins with the node's id
BEGIN, END, ABORT = 23, 24, 25
OF_NO_ACCOUNT = {7, 8, 17, 20, 21}  # fencing, registration changes, no-op, state of a migration from ZooKeeper
SECURITY = {10: "delegation tokens", 11: "SCRAM credentials", 18: "ACLs", 14: "client quotas"}
REMOVED = {19: 18, 22: 11, 26: 10}  # which of the former a record takes away


class UnreadableMetadata(Exception):
    """The metadata log is damaged, or of a version that is not known."""


@dataclass(slots=True)
class Partition:
    replicas: list[int]
    isr: list[int]
    leader_epoch: int
    leader: int
    directories: list[bytes]
    eligible: list[int]
    moving: bool


@dataclass(slots=True)
class Metadata:
    topics: dict[bytes, str] = field(default_factory=dict)
    partitions: dict[bytes, dict[int, Partition]] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    brokers: set[int] = field(default_factory=set)
    controllers: set[int] = field(default_factory=set)
    security: Counter[str] = field(default_factory=Counter)
    next_producer_id: int = 0
    epoch: int = 0  # of the controller that wrote last
    end_offset: int = 0

    def topic_configs(self, name: str) -> dict[str, str]:
        return self.configs.get((TOPIC, name), {})

    # -- replay --------------------------------------------------------------------------------------------------

    def apply(self, kind: int, version: int, body: bytes) -> None:
        if kind in RECORDS:
            record = codec.decode(RECORDS[kind], version, body)
            match record:
                case messages.TopicRecord():
                    self.topics[record.topic_id] = record.name
                    self.partitions[record.topic_id] = {}
                case messages.PartitionRecord():
                    self._add_partition(record)
                case messages.PartitionChangeRecord():
                    self._change_partition(record)
                case messages.ConfigRecord():
                    self._change_config(record)
                case messages.RemoveTopicRecord():
                    name = self.topics.pop(record.topic_id)
                    del self.partitions[record.topic_id]
                    self.configs.pop((TOPIC, name), None)
                case messages.FeatureLevelRecord():
                    self.features[record.name] = record.feature_level
                case messages.ProducerIdsRecord():
                    self.next_producer_id = record.next_producer_id
                case messages.ClearElrRecord():
                    self._clear_eligible(record.topic_name)
        elif kind == REGISTER_BROKER:
            self.brokers.add(_INT32.unpack_from(body)[0])
        elif kind == UNREGISTER_BROKER:
            self.brokers.discard(_INT32.unpack_from(body)[0])
        elif kind == REGISTER_CONTROLLER:
            self.controllers.add(_INT32.unpack_from(body)[0])
        elif kind in SECURITY:
            self.security[SECURITY[kind]] += 1
        elif kind in REMOVED:
            self.security[SECURITY[REMOVED[kind]]] -= 1
        elif kind not in OF_NO_ACCOUNT:
            raise UnreadableMetadata(f"a metadata record of type {kind}, which Kafka 4.3 does not have")

    def _add_partition(self, record: messages.PartitionRecord) -> None:
        self.partitions[record.topic_id][record.partition_id] = Partition(
            replicas=record.replicas,
            isr=record.isr,
            leader_epoch=record.leader_epoch,
            leader=record.leader,
            directories=record.directories,
            eligible=record.eligible_leader_replicas or [],
            moving=bool(record.adding_replicas or record.removing_replicas),
        )

    def _change_partition(self, record: messages.PartitionChangeRecord) -> None:
        partition = self.partitions[record.topic_id][record.partition_id]
        if record.isr is not None:
            partition.isr = record.isr
        if record.replicas is not None:
            partition.replicas = record.replicas
        if record.directories is not None:
            partition.directories = record.directories
        if record.eligible_leader_replicas is not None:
            partition.eligible = record.eligible_leader_replicas
        if record.adding_replicas is not None or record.removing_replicas is not None:
            partition.moving = bool(record.adding_replicas or record.removing_replicas)
        if record.leader != UNCHANGED:
            partition.leader = record.leader
            partition.leader_epoch += 1

    def _change_config(self, record: messages.ConfigRecord) -> None:
        configs = self.configs.setdefault((record.resource_type, record.resource_name), {})
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value

    def _clear_eligible(self, name: str) -> None:
        for topic_id, partitions in self.partitions.items():
            if name in ("", self.topics[topic_id]):
                for partition in partitions.values():
                    partition.eligible = []


# -- the files -----------------------------------------------------------------------------------------------------


def read_metadata(directory: Path) -> Metadata:
    """What the metadata log in `directory` says. Raises UnreadableMetadata, OSError."""
    metadata = Metadata()
    snapshots = sorted(path for path in directory.glob("*" + CHECKPOINT_SUFFIX) if _is_snapshot(path))
    start = 0
    if snapshots:
        start, _ = _snapshot_id(snapshots[-1])
        for kind, version, body in snapshot_records(snapshots[-1]):
            _apply(metadata, kind, version, body, snapshots[-1])
        metadata.end_offset = start
    held: list[tuple[int, int, bytes]] | None = None  # of an open transaction
    for path in sorted(directory.glob("*.log")):
        for header, records in _batches(path):
            if header.base_offset > metadata.end_offset:
                raise UnreadableMetadata(
                    f"{path}: offsets from {metadata.end_offset} to {header.base_offset} are missing"
                )
            if header.last_offset < start:
                continue
            metadata.end_offset, metadata.epoch = header.next_offset, header.partition_leader_epoch
            for kind, version, body in records:
                if kind == BEGIN:
                    held = []
                elif kind == ABORT:
                    held = None
                elif kind == END:
                    for one in held or ():
                        _apply(metadata, *one, path)
                    held = None
                elif held is not None:
                    held.append((kind, version, body))
                else:
                    _apply(metadata, kind, version, body, path)
    return metadata


def _apply(metadata: Metadata, kind: int, version: int, body: bytes, path: Path) -> None:
    try:
        metadata.apply(kind, version, body)
    except (ProtocolError, KeyError, struct.error) as error:
        raise UnreadableMetadata(f"{path}: a record of type {kind}, version {version}: {error!r}") from None


def snapshot_records(path: Path) -> Iterator[tuple[int, int, bytes]]:
    for _, records in _batches(path, whole=True):
        yield from records


def log_records(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Type, version and body of each record of a log file."""
    for _, records in _batches(path):
        yield from records


def _batches(path: Path, *, whole: bool = False) -> Iterator[tuple[BatchHeader, list[tuple[int, int, bytes]]]]:
    """Header and records of each batch up to the first that is torn; with `whole` none may be."""
    with SegmentReader(path) as reader:
        end = 0
        for position, batch in reader.batches():
            try:
                header = check(batch)
                records = [] if header.is_control else [_unframe(one.value) for one in iter_records(batch, BATCH_LIMIT)]
            except ProtocolError as error:
                if whole or position + len(batch) < reader.size:
                    raise UnreadableMetadata(f"{path}: the batch at position {position}: {error}") from None
                return
            end = position + len(batch)
            yield header, records
        if whole and end < reader.size:
            raise UnreadableMetadata(f"{path}: {reader.size - end} bytes at its end are no batch")


def _unframe(value: bytes | None) -> tuple[int, int, bytes]:
    view = memoryview(value or b"")
    words = []
    at = 0
    try:
        for _ in range(3):
            word, at = codec.read_varint(view, at + 1, view[at])
            words.append(word)
    except IndexError:
        raise UnreadableMetadata(f"a record of {len(view)} bytes") from None
    frame, kind, version = words
    if frame != FRAME_VERSION:
        raise UnreadableMetadata(f"a record in frame version {frame}, known is {FRAME_VERSION}")
    return kind, version, bytes(view[at:])


def _is_snapshot(path: Path) -> bool:
    try:
        _snapshot_id(path)
    except ValueError:
        return False
    return True


def _snapshot_id(path: Path) -> tuple[int, int]:
    offset, _, epoch = path.name.removesuffix(CHECKPOINT_SUFFIX).partition("-")
    return int(offset), int(epoch)


def voters(directory: Path) -> set[int]:
    """The voters that quorum-state names; none where they are kept in the log."""
    try:
        state = json.loads((directory / QUORUM_STATE).read_text())
        return {int(voter["voterId"]) for voter in state.get("currentVoters") or ()}
    except FileNotFoundError:
        return set()
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UnreadableMetadata(f"{directory / QUORUM_STATE} is not what Kafka writes there") from None
