"""Where the cluster's state stands in the store, and how each node is written: Kafka's own paths and JSON.

    /cluster/id                                   {"version":"1","id":CLUSTER_ID}
    /controller                  ephemeral        {"version":2,"brokerid":ID,"timestamp":MS}
    /controller_epoch                             EPOCH
    /brokers/ids/ID              ephemeral        {"version":5,"host":…,"port":…,"endpoints":["LISTENER://HOST:PORT",…],
                                                   "rack":…,"timestamp":MS}
    /brokers/topics/NAME                          {"version":3,"topic_id":BASE64,"partitions":{"0":[REPLICA,…],…},
                                                   "adding_replicas":{},"removing_replicas":{}}
    /brokers/topics/NAME/partitions/N/state       {"version":1,"controller_epoch":…,"leader":…,"leader_epoch":…,
                                                   "isr":[…]}
    /config/topics/NAME                           {"version":1,"config":{KEY:VALUE,…}}
    /config/brokers/ID, …/<default>               the same: overrides of a broker, and those for all
    /config/groups/NAME                           the same: overrides of a group (there may be no such group yet)
    /config/client-metrics/NAME                   the same: a subscription to clients' metrics
    /admin/delete_topics/NAME                     the topic is being deleted
    /feature                                      {"version":2,"status":1,"features":{NAME:LEVEL,…}}
    /latest_producer_id_block                     {"version":1,"broker":ID,"block_start":"N","block_end":"N"}

Names of groups and subscriptions may hold any character: those that a path cannot have are written as %XX. A node that
holds no override any more is deleted, except a topic's.

A topic is made by one `multi` that creates all of its nodes, so it is there wholly or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ottla.controller.image import BrokerInfo, PartitionImage, TopicImage
from ottla.controller.names import id_bytes, id_text
from ottla.coordination.store import Create, Delete, Node, Operation, Set, StoreError

CLUSTER_ID = "/cluster/id"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
CLIENT_METRICS = "/config/client-metrics"
FOR_ALL_BROKERS = "<default>"
DELETE_TOPICS = "/admin/delete_topics"
FEATURE = "/feature"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"

SKELETON = (
    "/cluster",
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/config",
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    CLIENT_METRICS,
    "/admin",
    DELETE_TOPICS,
)


class UnreadableNode(StoreError):
    """A node does not hold what its path promises."""

    def __init__(self, path: str, data: bytes) -> None:
        super().__init__(f"{path} cannot be read: {data[:200]!r}")


def encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def decode(path: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise UnreadableNode(path, data) from None


def encode_broker(broker: BrokerInfo, now_ms: int) -> bytes:
    host, port = next(iter(broker.endpoints.values()), ("", -1))
    return encode(
        {
            "version": 5,
            "host": host,
            "port": port,
            "endpoints": [f"{name}://{_address(*endpoint)}" for name, endpoint in broker.endpoints.items()],
            "rack": broker.rack,
            "timestamp": str(now_ms),
        }
    )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def decode_broker(path: str, data: bytes) -> BrokerInfo:
    value = decode(path, data)
    endpoints = {}
    try:
        for text in value["endpoints"]:
            name, _, address = text.partition("://")
            host, _, port = address.rpartition(":")
            endpoints[name] = (host.strip("[]"), int(port))
        return BrokerInfo(int(path.rpartition("/")[2]), value.get("rack"), endpoints)
    except (KeyError, ValueError, TypeError, AttributeError):
        raise UnreadableNode(path, data) from None


def create_topic(topic: TopicImage, controller_epoch: int) -> list[Operation]:
    """What makes the topic."""
    above = f"{TOPICS}/{topic.name}"
    return [
        Create(f"{TOPIC_CONFIGS}/{topic.name}", _encode_configs(topic.configs)),
        Create(above, _encode_assignment(topic)),
        Create(f"{above}/partitions"),
        *_create_partitions(topic, 0, controller_epoch),
    ]


def grow_topic(topic: TopicImage, first: int, controller_epoch: int) -> list[Operation]:
    """What adds the partitions from `first` on."""
    return [set_assignment(topic), *_create_partitions(topic, first, controller_epoch)]


def shrink_topic(topic: TopicImage, more: int) -> list[Operation]:
    """What takes back the partitions up to `more` that `topic` does not have."""
    above = f"{TOPICS}/{topic.name}/partitions"
    gone = range(len(topic.partitions), more)
    return [
        set_assignment(topic),
        *(Delete(path) for index in gone for path in (f"{above}/{index}/state", f"{above}/{index}")),
    ]


def set_assignment(topic: TopicImage) -> Operation:
    """What stores which brokers have the topic's replicas."""
    return Set(f"{TOPICS}/{topic.name}", _encode_assignment(topic))


def _encode_assignment(topic: TopicImage) -> bytes:
    numbered = list(enumerate(topic.partitions))
    return encode(
        {
            "version": 3,
            "topic_id": id_text(topic.id),
            "partitions": {str(index): partition.replicas for index, partition in numbered},
            "adding_replicas": {str(index): partition.adding for index, partition in numbered if partition.adding},
            "removing_replicas": {str(index): one.removing for index, one in numbered if one.removing},
        }
    )


def _create_partitions(topic: TopicImage, first: int, controller_epoch: int) -> list[Operation]:
    above = f"{TOPICS}/{topic.name}"
    operations: list[Operation] = []
    states: dict[tuple[int, int, tuple[int, ...]], bytes] = {}  # most partitions of a topic have one of few states
    for index, partition in enumerate(topic.partitions[first:], first):
        key = (partition.leader, partition.leader_epoch, tuple(partition.isr))
        state = states.get(key)
        if state is None:
            state = states[key] = encode_state(partition, controller_epoch)
        operations.append(Create(f"{above}/partitions/{index}"))
        operations.append(Create(f"{above}/partitions/{index}/state", state))
    return operations


def _encode_configs(configs: Mapping[str, str]) -> bytes:
    return encode({"version": 1, "config": configs})


def set_configs(path: str, configs: Mapping[str, str]) -> Operation:
    """What stores overrides at a node that is there."""
    return Set(path, _encode_configs(configs))


def put_configs(path: str, configs: Mapping[str, str], *, existed: bool) -> list[Operation]:
    """What stores overrides at a node that is there only while there are some."""
    if configs:
        return [set_configs(path, configs) if existed else Create(path, _encode_configs(configs))]
    return [Delete(path)] if existed else []


def read_configs(above: str, tree: Mapping[str, Node]) -> dict[str, dict[str, str]]:
    """The overrides of all nodes directly below `above`, by name; none where a node holds none."""
    found = {}
    for path, node in tree.items():
        parent, _, name = path.rpartition("/")
        if parent == above and node.data:
            value = decode(path, node.data)
            try:
                found[unescaped(name)] = {str(key): str(text) for key, text in value["config"].items()}
            except (KeyError, TypeError, AttributeError):
                raise UnreadableNode(path, node.data) from None
    return found


def escaped(name: str) -> str:
    """A name as one step of a path."""
    if name.replace("-", "").replace("_", "").isalnum() and name.isascii():
        return name
    from urllib.parse import quote  # most names do not need it

    return quote(name, safe="").replace(".", "%2E")


def unescaped(name: str) -> str:
    if "%" not in name:
        return name
    from urllib.parse import unquote

    return unquote(name)


def encode_state(partition: PartitionImage, controller_epoch: int) -> bytes:
    return encode(
        {
            "version": 1,
            "controller_epoch": controller_epoch,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "isr": partition.isr,
        }
    )


def set_state(topic: TopicImage, index: int, controller_epoch: int) -> Operation:
    """What stores who leads a partition."""
    path = f"{TOPICS}/{topic.name}/partitions/{index}/state"
    return Set(path, encode_state(topic.partitions[index], controller_epoch))


def encode_features(levels: Mapping[str, int]) -> bytes:
    return encode({"version": 2, "status": 1, "features": dict(levels)})


def decode_features(data: bytes) -> dict[str, int]:
    value = decode(FEATURE, data)
    try:
        return {str(name): int(level) for name, level in value["features"].items()}
    except (KeyError, ValueError, TypeError, AttributeError):
        raise UnreadableNode(FEATURE, data) from None


def delete_topic(name: str, tree: Mapping[str, Node]) -> list[Operation]:
    """What removes the topic, its configs and the mark of its deletion, as far as `tree` has them; children first."""
    above = f"{TOPICS}/{name}"
    own = [path for path in tree if path == above or path.startswith(above + "/")]
    own += [path for path in (f"{TOPIC_CONFIGS}/{name}", f"{DELETE_TOPICS}/{name}") if path in tree]
    return [Delete(path) for path in sorted(own, key=lambda path: path.count("/"), reverse=True)]


def read_topics(tree: Mapping[str, Node]) -> list[TopicImage]:
    """The topics of a tree that holds (at least) TOPICS and TOPIC_CONFIGS."""
    return [
        read_topic(path.rpartition("/")[2], tree)
        for path in tree
        if path.startswith(TOPICS + "/") and path.count("/") == TOPICS.count("/") + 1
    ]


def read_topic(name: str, tree: Mapping[str, Node]) -> TopicImage:
    path = f"{TOPICS}/{name}"
    node = tree[path]
    value = decode(path, node.data)
    config_node = tree.get(f"{TOPIC_CONFIGS}/{name}")
    configs = decode(f"{TOPIC_CONFIGS}/{name}", config_node.data)["config"] if config_node else {}
    try:
        partitions = [_read_partition(path, str(index), value, tree) for index in range(len(value["partitions"]))]
        return TopicImage(name, id_bytes(value["topic_id"]), partitions, configs)
    except (KeyError, ValueError, TypeError):
        raise UnreadableNode(path, node.data) from None


def _read_partition(above: str, index: str, topic: Mapping[str, Any], tree: Mapping[str, Node]) -> PartitionImage:
    path = f"{above}/partitions/{index}/state"
    node = tree[path]
    state = decode(path, node.data)
    return PartitionImage(
        state["leader"],
        state["leader_epoch"],
        topic["partitions"][index],
        state["isr"],
        node.version,
        tuple(topic.get("adding_replicas", {}).get(index, ())),
        tuple(topic.get("removing_replicas", {}).get(index, ())),
    )
