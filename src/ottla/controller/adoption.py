"""Taking over the data directories of a stopped Apache Kafka 4.3, one KRaft node: what `ottla adopt` does.

    survey    reads everything, writes nothing; says why not (Unadoptable), or what there is (Adoption)
    adopt     writes coordination.db and meta.properties, puts Kafka's own files aside
    undo      puts them back

The logs stay as they are, since ottla's are in Kafka's format; only segments with records in message formats 0 and 1
are written anew in format 2 (conversion.py). What is put aside goes to `kafka-originals` in the same directory:
meta.properties, the metadata log, its bootstrap file, the old ones of such segments, and directories of partitions that
the metadata does not know. meta.properties is replaced last, so a directory counts as Kafka's until all the rest is
done; if it comes to an end in between, `undo` makes it Kafka's again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ottla.config.client_metrics import validate_client_metrics
from ottla.config.dynamic import CLUSTER, usable
from ottla.config.errors import ConfigError
from ottla.config.group import GroupConfig
from ottla.config.topic import topic_warnings, validate_topic_overrides
from ottla.controller import kraft, znodes
from ottla.controller.configs import BROKER, CLIENT_METRICS, GROUP, TOPIC
from ottla.controller.image import PartitionImage, TopicImage
from ottla.controller.names import id_bytes, id_text, why_illegal
from ottla.controller.producer_ids import BLOCK_SIZE
from ottla.coordination.local import FILE_NAME, LocalStore
from ottla.coordination.store import Create, Operation
from ottla.protocol.errors import ProtocolError
from ottla.storage.checkpoints import replace_file
from ottla.storage.conversion import convert, is_old
from ottla.storage.directory import CLEAN_SHUTDOWN, KRAFT, META, DataDirectory, read_meta
from ottla.storage.errors import DamagedDirectory
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX

ASIDE = "kafka-originals"
BOOTSTRAP = "bootstrap.checkpoint"
FUTURE = "-future"
TIERED = ("remote.", "local.retention.")  # how configs of tiered storage begin

OLDEST_LEVEL, NEWEST_LEVEL = 7, 30  # of metadata.version that Kafka 4.3 runs with: 3.3-IV3 to 4.3-IV0
HARMLESS = {("", "min.insync.replicas", "1")}  # broker configs that every new cluster gets, with ottla's own default


class Unadoptable(Exception):
    """Why these directories cannot be taken over; nothing was changed."""


@dataclass(slots=True)
class Adoption:
    """What was found, and what is to be done with it."""

    directories: list[Path]
    cluster_id: str
    node_id: int
    was_clean: bool
    metadata: kraft.Metadata
    topics: list[TopicImage]
    log_bytes: int = 0
    aside: list[Path] = field(default_factory=list)  # Kafka's own files and what belongs to no topic
    old: list[Path] = field(default_factory=list)  # segments with records in message formats 0 and 1
    overrides: list[tuple[str, dict[str, str]]] = field(default_factory=list)  # but topics' own: node, settings
    warnings: list[str] = field(default_factory=list)


# -- survey --------------------------------------------------------------------------------------------------------


def survey(paths: list[Path]) -> Adoption:
    """See what is there, and whether it can be taken over. Raises Unadoptable, OSError. Changes nothing."""
    directories = [path.absolute() for path in paths]
    cluster_id, node_id, ids = _owners(directories)
    homes = [path for path in directories if (path / kraft.DIRECTORY).is_dir()]
    if len(homes) != 1:
        raise Unadoptable(
            f"{'no' if not homes else 'more than one'} metadata log {kraft.DIRECTORY} in {_list(directories)}; "
            "give all directories of the node (log.dirs and metadata.log.dir)"
        )
    try:
        metadata = kraft.read_metadata(homes[0] / kraft.DIRECTORY)
        nodes = metadata.brokers | metadata.controllers | kraft.voters(homes[0] / kraft.DIRECTORY)
    except kraft.UnreadableMetadata as error:
        raise Unadoptable(str(error)) from None
    _check_cluster(metadata, nodes, node_id)
    topics = [_topic(topic_id, name, metadata, node_id) for topic_id, name in metadata.topics.items()]
    found = Adoption(
        directories=directories,
        cluster_id=cluster_id,
        node_id=node_id,
        was_clean=all((path / CLEAN_SHUTDOWN).exists() for path in directories),
        metadata=metadata,
        topics=sorted(topics, key=lambda topic: topic.name),
    )
    _look_at_logs(found, ids)
    _look_at_overrides(found)
    _warn(found)
    return found


def _owners(directories: list[Path]) -> tuple[str, int, dict[bytes, Path]]:
    """Cluster id and node id of the directories, and the id of each."""
    owners: set[tuple[str, str]] = set()
    ids: dict[bytes, Path] = {}
    for path in directories:
        if not path.is_dir():
            raise Unadoptable(f"{path} is no directory")
        if (path / ASIDE).exists():
            raise Unadoptable(
                f"{path} was taken over before, wholly or in part; ottla adopt --undo {path} takes it back"
            )
        try:
            meta = read_meta(path)
        except DamagedDirectory as error:
            raise Unadoptable(str(error)) from None
        if not meta:
            raise Unadoptable(f"{path} has no {META}: it is no log directory of a Kafka")
        if (path / FILE_NAME).exists() or meta.get("version") == "0":
            raise Unadoptable(
                f"{path} belongs to an ottla, or to a Kafka with ZooKeeper, and not to a Kafka with KRaft"
            )
        try:
            if meta["version"] != KRAFT:
                raise Unadoptable(f"{path / META} has version {meta['version']}, known is {KRAFT}")
            owners.add((meta["cluster.id"], meta["node.id"]))
            ids[id_bytes(meta["directory.id"])] = path
        except (KeyError, ValueError) as error:
            raise Unadoptable(
                f"{path / META} lacks cluster.id, node.id or directory.id, or one is wrong: {error}"
            ) from None
    if len(owners) > 1:
        raise Unadoptable(f"{_list(directories)} belong to different nodes: {', '.join(map(str, sorted(owners)))}")
    ((cluster_id, node_id),) = owners
    if not node_id.isdigit():
        raise Unadoptable(f"{directories[0] / META}: node.id={node_id} is no number")
    return cluster_id, int(node_id), ids


def _check_cluster(metadata: kraft.Metadata, nodes: set[int], node_id: int) -> None:
    level = metadata.features.get(kraft.METADATA_VERSION, 0)
    if not OLDEST_LEVEL <= level <= NEWEST_LEVEL:
        raise Unadoptable(
            f"the cluster has {kraft.METADATA_VERSION} {level}; those of Kafka 4.3 are {OLDEST_LEVEL} to {NEWEST_LEVEL}"
        )
    if nodes - {node_id}:
        others = ", ".join(map(str, sorted(nodes - {node_id})))
        raise Unadoptable(
            f"the cluster has other nodes ({others}) beside {node_id}; only a single one can be taken over"
        )
    if metadata.brokers != {node_id}:
        raise Unadoptable(f"node {node_id} is not registered as a broker")
    kept_out = [f"{count} {name}" for name, count in metadata.security.items() if count > 0 and name != "client quotas"]
    if kept_out:
        raise Unadoptable(f"the cluster has {', '.join(kept_out)}: ottla would serve everybody without them")


def _topic(topic_id: bytes, name: str, metadata: kraft.Metadata, node_id: int) -> TopicImage:
    wrong = why_illegal(name)
    if wrong is not None:
        raise Unadoptable(wrong)
    given = metadata.topic_configs(name)
    if given.get("remote.storage.enable") == "true":
        raise Unadoptable(
            f"topic {name} has tiered storage (remote.storage.enable): a part of its records is elsewhere"
        )
    try:
        configs = validate_topic_overrides(
            {
                key: value for key, value in given.items() if not key.startswith(TIERED)
            }  # without effect when not enabled
        )
    except ConfigError as error:
        raise Unadoptable(f"topic {name}: {error}") from None
    found = metadata.partitions[topic_id]
    partitions = []
    for index in range(len(found)):
        if index not in found:
            raise Unadoptable(f"topic {name} has {len(found)} partitions, but no partition {index}")
        partition = found[index]
        if partition.replicas != [node_id] or partition.moving:
            raise Unadoptable(
                f"{name}-{index} has replicas {partition.replicas}, not only {node_id}, or is being moved"
            )
        if node_id not in (*partition.isr, *partition.eligible):
            raise Unadoptable(
                f"{name}-{index} is offline: node {node_id} is not in sync, its records may be incomplete"
            )
        partitions.append(PartitionImage(node_id, partition.leader_epoch + 1, [node_id], [node_id]))
    return TopicImage(name, topic_id, partitions, configs)


def _look_at_logs(found: Adoption, ids: dict[bytes, Path]) -> None:
    """Every partition must be there, once, with its topic's id."""
    logs = {key: path for one in found.directories for key, path in DataDirectory(one).partitions().items()}
    metadata_log = next(path / kraft.DIRECTORY for path in found.directories if (path / kraft.DIRECTORY).is_dir())
    logs = {key: path for key, path in logs.items() if path != metadata_log}
    for topic in found.topics:
        for index in range(len(topic.partitions)):
            path = logs.pop((topic.name, index), None)
            home = found.metadata.partitions[topic.id][index].directories or [kraft.MIGRATING]
            if home[0] not in ids and home[0] not in (kraft.MIGRATING, kraft.UNASSIGNED):
                raise Unadoptable(
                    f"{topic.name}-{index} lies in another directory (id {id_text(home[0])}) than "
                    f"{_list(found.directories)}; give all directories of the node"
                )
            if path is None:
                if home[0] in ids:
                    raise Unadoptable(f"{ids[home[0]]} lacks {topic.name}-{index}")
                continue  # made just before the end, and never opened: ottla makes it
            if DataDirectory.read_topic_id(path) not in (None, topic.id):
                raise Unadoptable(f"{path} is of another topic with the same name")
            _look_at_log(path, found)
    found.aside = [metadata_log, *sorted(logs.values())]
    for one in found.directories:
        found.aside += [path for path in (one / BOOTSTRAP, *sorted(one.glob("*" + FUTURE))) if path.exists()]
    for path in logs.values():
        found.warnings.append(f"{path.name} belongs to no topic and is put aside")
    if found.old:
        found.warnings.append(f"{len(found.old)} segments in old message formats are written anew in today's")


def _look_at_log(path: Path, found: Adoption) -> None:
    """Take note of a log's segments."""
    for segment in sorted(path.iterdir()):
        if segment.suffix == LOG_SUFFIX:
            found.log_bytes += segment.stat().st_size
            if is_old(segment):
                try:
                    deque(convert(segment), maxlen=0)
                except ProtocolError as error:
                    raise Unadoptable(f"{segment}, in an old message format, is damaged: {error}") from None
                found.old.append(segment)


def _look_at_overrides(found: Adoption) -> None:
    """Settings of brokers, groups and subscriptions that were set at run time."""
    for (kind, name), configs in sorted(found.metadata.configs.items()):
        if kind == TOPIC:
            continue
        path = ""
        kept: dict[str, str] = {}
        told: list[str] = []
        if kind == BROKER and name in (CLUSTER, str(found.node_id)):
            path = f"{znodes.BROKER_CONFIGS}/{name or znodes.FOR_ALL_BROKERS}"
            wanted = {key: text for key, text in configs.items() if (name, key, text) not in HARMLESS}
            kept, told = usable(wanted, for_all=name == CLUSTER)
        elif kind == GROUP:
            path = f"{znodes.GROUP_CONFIGS}/{znodes.escaped(name)}"
            kept = {key: text for key, text in configs.items() if key in GroupConfig.settings}
            told = [f"unknown key {key}" for key in configs.keys() - kept.keys()]
        elif kind == CLIENT_METRICS:
            path = f"{znodes.CLIENT_METRICS}/{znodes.escaped(name)}"
            try:
                kept = validate_client_metrics(configs)
            except ConfigError as error:
                told = [str(error)]
        else:
            told = [f"{key}={text}" for key, text in sorted(configs.items())]
        if kept:
            found.overrides.append((path, kept))
        found.warnings += [f"not taken over of resource {name!r} (type {kind}): {line}" for line in told]


def _warn(found: Adoption) -> None:
    metadata = found.metadata
    for topic in found.topics:
        found.warnings += [f"topic {topic.name}: {warning}" for warning in topic_warnings(topic.configs)]
    if metadata.security["client quotas"] > 0:
        found.warnings.append("client quotas are not taken over")


def _list(paths: list[Path]) -> str:
    return ", ".join(map(str, paths))


# -- doing it ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(directories: list[Path]) -> Iterator[None]:
    """Keep brokers out. Kafka holds a POSIX lock, ottla one of BSD; neither is there when nobody ever locked."""
    with contextlib.ExitStack() as stack:
        for directory in directories:
            try:
                file = stack.enter_context((directory / ".lock").open("r+b"))
            except FileNotFoundError:
                continue
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Unadoptable(f"a broker is running on {directory}; stop it first") from None
        yield


async def adopt(found: Adoption, written: Callable[[int], None] = lambda count: None) -> None:
    """Take the directories over. They must be locked. `written` is told how many of `found.old` are written anew."""
    first = found.directories[0]
    beside = first / f"{FILE_NAME}.new"
    beside.unlink(missing_ok=True)
    for directory in found.directories:
        (directory / ASIDE).mkdir()
        shutil.copy2(directory / META, directory / ASIDE / META)
    store = await LocalStore.open(beside)
    try:
        await store.multi(_nodes(found))
    finally:
        await store.close()
    beside.rename(first / FILE_NAME)
    for count, path in enumerate(found.old):
        written(count)
        _write_anew(path)
    for path in found.aside:
        path.rename(path.parent / ASIDE / path.name)
    for directory in found.directories:
        text = f"#\nversion=0\nbroker.id={found.node_id}\ncluster.id={found.cluster_id}\n"
        replace_file(directory / META, text.encode(), sync=True)


def _write_anew(segment: Path) -> None:
    """Put a segment in today's format into the place of one in an old format."""
    beside = segment.with_name(segment.name + ".tmp")
    with beside.open("wb") as file:
        file.writelines(convert(segment))
        file.flush()
        os.fsync(file.fileno())
    aside = segment.parent.parent / ASIDE / segment.parent.name
    aside.mkdir(exist_ok=True)
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
        path = segment.with_suffix(suffix)
        if path.exists():
            path.rename(aside / path.name)
    beside.rename(segment)


def _nodes(found: Adoption) -> list[Operation]:
    """The tree as the controller would have written it."""
    epoch = max(found.metadata.epoch, 1)
    nodes: list[Operation] = [Create(path) for path in znodes.SKELETON]
    nodes.append(Create(znodes.CLUSTER_ID, znodes.encode({"version": "1", "id": found.cluster_id})))
    nodes.append(Create(znodes.CONTROLLER_EPOCH, b"%d" % epoch))
    following = found.metadata.next_producer_id
    if following:
        block = {
            "version": 1,
            "broker": found.node_id,
            "block_start": str(max(following - BLOCK_SIZE, 0)),
            "block_end": str(following - 1),
        }
        nodes.append(Create(znodes.PRODUCER_ID_BLOCK, znodes.encode(block)))
    for topic in found.topics:
        nodes += znodes.create_topic(topic, epoch)
    for path, overrides in found.overrides:
        nodes += znodes.put_configs(path, overrides, existed=False)
    return nodes


def undo(paths: list[Path]) -> None:
    """Give the directories back to Kafka. They must be locked."""
    directories = [path.absolute() for path in paths]
    for directory in directories:
        if not (directory / ASIDE / META).exists():
            raise Unadoptable(f"{directory} has no {ASIDE}: it was not taken over from a Kafka")
    for directory in directories:
        for path in sorted((directory / ASIDE).iterdir()):
            if path.name != META:
                _put_back(path, directory / path.name)
        for path in directory.glob(FILE_NAME + "*"):
            path.unlink()
        os.replace(directory / ASIDE / META, directory / META)
        (directory / ASIDE).rmdir()


def _put_back(path: Path, to: Path) -> None:
    if path.is_dir() and to.is_dir():  # segments that were written anew
        for part in sorted(path.iterdir()):
            os.replace(part, to / part.name)
        path.rmdir()
    else:
        path.rename(to)
