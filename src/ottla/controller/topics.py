"""What becomes of requests to create and delete topics: decisions only, no I/O.

Each topic of a request gets its own result; one bad entry does not spoil the others. The order of the checks is
Kafka's: name, existence, configs, then partitions and replicas. A request that names a topic twice creates neither of
the two. -1 stands for the broker's default number of partitions or replicas (KIP-464); with a hand-made assignment both
must be -1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.config.topic import validate_topic_overrides
from ottla.controller.image import ClusterImage, PartitionImage, TopicImage
from ottla.controller.names import CLUSTER_METADATA, collision_key, why_illegal
from ottla.controller.placement import BadAssignment, ImpossibleReplication, check_assignment, place
from ottla.protocol.errors import ErrorCode

DEFAULT = -1
MAX_PARTITIONS_PER_REQUEST = 10_000  # Kafka's own limit; keeps one request from filling memory


class NewTopic(NamedTuple):
    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = {}


class TopicResult(NamedTuple):
    """`image` is the topic as it was made (or would be, when only validated); None if it was refused."""

    name: str
    error_code: ErrorCode
    message: str | None
    image: TopicImage | None = None


class DeletionResult(NamedTuple):
    """`name` and `id` as far as the request gave them or they could be found."""

    name: str | None
    id: bytes | None
    error_code: ErrorCode
    message: str | None = None


class Refused(Exception):
    """One entry of a request cannot be done: what its result says."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


def plan_creation(
    asked: Sequence[NewTopic],
    image: ClusterImage,
    config: BrokerConfig,
    *,
    being_deleted: Collection[str] = (),
    new_id: Callable[[], bytes],
    pick_start: Callable[[int], int],
) -> list[TopicResult]:
    """One result per name. `pick_start(n)` chooses the first leader's position on a ring of n brokers."""
    total = sum(_partition_count(new, config) for new in asked)
    if total > MAX_PARTITIONS_PER_REQUEST:
        message = f"{total} partitions in one request; at most {MAX_PARTITIONS_PER_REQUEST} are allowed"
        return [
            TopicResult(name, ErrorCode.POLICY_VIOLATION, message) for name in dict.fromkeys(new.name for new in asked)
        ]
    times = Counter(new.name for new in asked)
    planned: dict[str, str] = {}  # collision key -> name
    results = []
    for new in {new.name: new for new in asked}.values():
        try:
            if times[new.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, f"topic {new.name!r} is named {times[new.name]} times")
            _check_name(new.name, image, being_deleted, planned)
            configs = _check_configs(new.configs)
            replicas = _place(new, image, config, pick_start)
        except Refused as refused:
            results.append(TopicResult(new.name, refused.error_code, refused.message))
            continue
        planned[collision_key(new.name)] = new.name
        partitions = [PartitionImage(brokers[0], 0, brokers, list(brokers)) for brokers in replicas]
        results.append(TopicResult(new.name, ErrorCode.NONE, None, TopicImage(new.name, new_id(), partitions, configs)))
    return results


def _partition_count(new: NewTopic, config: BrokerConfig) -> int:
    if new.assignments:
        return len(new.assignments)
    return config.num_partitions if new.partitions == DEFAULT else max(new.partitions, 0)


def _check_name(name: str, image: ClusterImage, being_deleted: Collection[str], planned: Mapping[str, str]) -> None:
    fault = why_illegal(name)
    if fault is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    if name == CLUSTER_METADATA:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{name} is reserved")
    if name in image.topics:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if name in being_deleted:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} is being deleted")
    other = image.colliding(name) or planned.get(collision_key(name))
    if other is not None:
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {name!r} collides with {other!r}: names must differ in more than '.' and '_'",
        )


def _check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    try:
        return validate_topic_overrides(configs)
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None


def _place(
    new: NewTopic, image: ClusterImage, config: BrokerConfig, pick_start: Callable[[int], int]
) -> list[list[int]]:
    racks = {broker.id: broker.rack for broker in image.brokers.values()}
    if new.assignments:
        if new.partitions != DEFAULT or new.replication_factor != DEFAULT:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                "with a replica assignment, the number of partitions and the replication factor must be -1",
            )
        try:
            return check_assignment(new.assignments, racks)
        except BadAssignment as error:
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, str(error)) from None
    if new.replication_factor != DEFAULT and new.replication_factor < 1:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"a replication factor of {new.replication_factor} is illegal: at least 1, or -1 for the default",
        )
    if new.partitions != DEFAULT and new.partitions < 1:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS, f"{new.partitions} partitions are illegal: at least 1, or -1 for the default"
        )
    count = _partition_count(new, config)
    replicas = config.default_replication_factor if new.replication_factor == DEFAULT else new.replication_factor
    try:
        return place(count, replicas, racks, pick_start(len(racks)) if racks else 0)
    except ImpossibleReplication as error:
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, str(error)) from None


def plan_deletion(asked: Sequence[str | bytes], image: ClusterImage) -> list[DeletionResult]:
    """One result per different entry, each a name or an id; those without an error are to be deleted.

    A topic that is named twice, by whatever means, is refused: the request contradicts itself.
    """
    times = Counter(asked)
    found: dict[str | bytes, TopicImage | None] = {
        key: image.topics.get(key) if isinstance(key, str) else image.topics_by_id.get(key) for key in times
    }
    meant = Counter(topic.id for topic in found.values() if topic is not None)
    results = []
    for key, topic in found.items():
        name, id = (key, None) if isinstance(key, str) else (None, key)
        if times[key] > 1:
            fault = f"the topic is named {times[key]} times"
            results.append(DeletionResult(name, id, ErrorCode.INVALID_REQUEST, fault))
        elif topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if id is None else ErrorCode.UNKNOWN_TOPIC_ID
            results.append(DeletionResult(name, id, code, code.message))
        elif meant[topic.id] > 1:
            fault = "the topic is named by its name and by its id"
            results.append(DeletionResult(topic.name, topic.id, ErrorCode.INVALID_REQUEST, fault))
        else:
            results.append(DeletionResult(topic.name, topic.id, ErrorCode.NONE))
    return results
