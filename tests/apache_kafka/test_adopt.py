"""`ottla adopt` takes over what a real Kafka left behind, and touches nothing when it cannot."""

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.cli import main
from ottla.controller import kraft
from ottla.protocol import codec, messages
from ottla.protocol.errors import ErrorCode
from ottla.protocol.legacy import downconvert
from ottla.protocol.records import Record, build_batch, iter_batches, iter_records
from ottla.protocol.schema import schema_of
from ottla.testing import BrokerProcess
from ottla.testing.process import BrokerFailed
from support.apache_kafka import dump_log_segments
from support.consumer_wire import ConsumerMember, describe
from support.group_wire import fetch
from support.kafka_story import State, Story, look, read_all
from support.wire import Wire


def tree(directory: Path) -> dict[str, tuple[int, bytes] | None]:
    """All that lies below a directory: sizes, and contents byte for byte."""
    return {
        str(path.relative_to(directory)): contents(path) if path.is_file() else None for path in directory.rglob("*")
    }


def contents(path: Path) -> tuple[int, bytes]:
    """Size and bytes of a file, without the hole at its end: a killed Kafka leaves many indexes of 10 MB with one."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        data, at = b"", 0
        while at < size:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:  # nothing but a hole
                break
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            data += os.pread(file.fileno(), end - at, at)
            at = end
        return size, data


def copied(state: State, to: Path) -> Path:
    subprocess.run(["cp", "-a", "--sparse=always", str(state.directory), str(to)], check=True)
    return to


@pytest.fixture(params=["clean", "killed"])
def state(story: Story, request: pytest.FixtureRequest) -> State:
    found = getattr(story, request.param)
    assert isinstance(found, State)
    return found


@pytest.fixture
def adopted(state: State, tmp_path: Path) -> Iterator[BrokerProcess]:
    directory = copied(state, tmp_path / "data")
    assert main.run(["adopt", "--yes", str(directory)]) == 0
    with BrokerProcess(directory, {"log.cleaner.enable": "false"}) as broker:  # what Kafka compacted stays as it is
        yield broker


def test_clients_see_what_they_saw_on_kafka(state: State, adopted: BrokerProcess) -> None:
    seen = look(adopted.bootstrap)
    assert seen.cluster_id == state.view.cluster_id
    assert seen.ids == state.view.ids
    assert seen.configs == state.view.configs
    assert seen.ranges == state.view.ranges
    assert seen.records.keys() == state.view.records.keys()
    for key, records in seen.records.items():
        assert records == state.view.records[key], key
    adopted.restart()
    assert look(adopted.bootstrap) == seen


def test_the_retry_of_a_batch_that_kafka_took_is_recognised(state: State, adopted: BrokerProcess) -> None:
    wire = Wire("127.0.0.1", adopted.port)
    offset, batch = state.retried[-1]
    assert wire.produce_batch("retried", batch) == offset
    assert wire.produce_batch("retried", state.next_batch) == offset + 3
    assert wire.produce_batch("retried", state.next_batch) == offset + 3
    given = wire.call(messages.InitProducerIdRequest(transactional_id=None), 4).producer_id
    wire.close()
    assert given > state.producer_id


def test_what_was_aborted_on_kafka_stays_hidden_and_its_transactional_ids_live_on(adopted: BrokerProcess) -> None:
    settings = {"bootstrap.servers": adopted.bootstrap, "group.id": "committed", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition("transactions", 0, 0)])
    seen = []
    while (one := consumer.poll(10)) is not None and not one.error():
        seen.append(one.value())
    consumer.close()
    assert seen == [f"{number}.{at}".encode() for number in (0, 2) for at in range(3)]
    producer = Producer({"bootstrap.servers": adopted.bootstrap, "transactional.id": "payments"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("transactions", "more")
    producer.commit_transaction(10)


def test_internal_topics_are_taken_over_as_they_are(state: State, adopted: BrokerProcess) -> None:
    records, _ = read_all(adopted.bootstrap, [("__consumer_offsets", 0), ("__consumer_offsets", 1)])
    keys = [one.key for partition in records.values() for one in partition]
    assert any(key and b"readers" in key and b"plain" in key for key in keys)


def test_groups_find_the_offsets_that_they_committed_to_kafka(adopted: BrokerProcess) -> None:
    wire = Wire("127.0.0.1", adopted.port)
    while (found := fetch(wire, "readers")) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]:
        pass
    wire.close()
    assert [one[:3] for one in found] == [("plain", 0, 5)]


def test_members_of_consumer_groups_go_on_with_what_kafka_gave_them(adopted: BrokerProcess) -> None:
    wire = Wire("127.0.0.1", adopted.port)
    while (group := describe(wire, "newcomers")[0]).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass
    seen = {one.member_id: one for one in group.members}
    assert (seen["one"].subscribed_topic_regex, seen["two"].subscribed_topic_names) == ("pla.*", ["plain"])
    members = [ConsumerMember(wire, "newcomers", id=name) for name in seen]
    for member in members:
        member.epoch = seen[member.id].member_epoch
        member.given = {one.topic_id: one.partitions for one in seen[member.id].assignment.topic_partitions}
    before = [member.partitions for member in members]
    assert sorted(before) == [[0], [1]]
    members[0].settle(members[1])
    assert [member.partitions for member in members] == before
    assert [one[2] for one in fetch(wire, "newcomers")] == [7]
    for member in members:
        member.send(member_epoch=-1)
    wire.close()


def test_it_says_what_it_found_and_asks_first(
    story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = copied(story.clean, tmp_path / "data")
    before = tree(directory)
    monkeypatch.setattr("sys.stdin", StringIO("n\n"))
    assert main.run(["adopt", str(directory)]) == main.INTERRUPTED
    told = capsys.readouterr().out
    assert f"cluster {story.clean.view.cluster_id}, node 1, metadata.version 30; stopped properly." in told
    assert "  plain (2) retention.ms=-1 segment.bytes=1048576\n" in told
    assert told.endswith("Take it over? [y/N]: ")
    assert tree(directory) == before
    monkeypatch.setattr("sys.stdin", StringIO("y\n"))
    assert main.run(["adopt", str(directory)]) == 0


def test_undoing_it_leaves_the_directory_as_kafka_had_it(state: State, tmp_path: Path) -> None:
    directory = copied(state, tmp_path / "data")
    before = tree(directory)
    assert main.run(["adopt", "--yes", str(directory)]) == 0
    assert tree(directory) != before
    assert main.run(["adopt", "--yes", "--undo", str(directory)]) == 0
    assert tree(directory) == before


def test_a_broker_does_not_touch_a_directory_that_is_still_kafkas(story: Story, tmp_path: Path) -> None:
    directory = copied(story.clean, tmp_path / "data")
    before = tree(directory)
    with pytest.raises(BrokerFailed, match="belongs to an Apache Kafka; `ottla adopt"):
        BrokerProcess(directory, {"node.id": "1"}).start()
    assert tree(directory) == before


def test_records_of_the_metadata_log_are_written_back_as_kafka_wrote_them(story: Story) -> None:
    directory = story.killed.directory / kraft.DIRECTORY
    seen = set()
    snapshots = list(directory.glob("*.checkpoint"))
    assert snapshots
    records = [one for path in directory.glob("*.log") for one in kraft.log_records(path)]
    records += [one for path in snapshots for one in kraft.snapshot_records(path)]
    for kind, version, body in records:
        if kind in kraft.RECORDS:
            seen.add(kraft.RECORDS[kind])
            assert codec.encode(codec.decode(kraft.RECORDS[kind], version, body), version) == body
    assert seen == set(kraft.RECORDS.values())


COORDINATORS = {
    "__consumer_offsets": {
        1: ("OffsetCommitKey", "OffsetCommitValue"),
        2: ("GroupMetadataKey", "GroupMetadataValue"),
        3: ("ConsumerGroupMetadataKey", "ConsumerGroupMetadataValue"),
        5: ("ConsumerGroupMemberMetadataKey", "ConsumerGroupMemberMetadataValue"),
        6: ("ConsumerGroupTargetAssignmentMetadataKey", "ConsumerGroupTargetAssignmentMetadataValue"),
        7: ("ConsumerGroupTargetAssignmentMemberKey", "ConsumerGroupTargetAssignmentMemberValue"),
        8: ("ConsumerGroupCurrentMemberAssignmentKey", "ConsumerGroupCurrentMemberAssignmentValue"),
        16: ("ConsumerGroupRegularExpressionKey", "ConsumerGroupRegularExpressionValue"),
    },
    "__transaction_state": {0: ("TransactionLogKey", "TransactionLogValue")},
}


@pytest.mark.parametrize("topic", COORDINATORS)
def test_records_of_coordinators_are_written_back_as_kafka_wrote_them(story: Story, topic: str) -> None:
    def written_back(name: str, data: bytes) -> bytes:
        version = int.from_bytes(data[:2], "big")
        known = min(version, schema_of(name).versions[1])  # the kind of a key is no version of its form
        return data[:2] + bytes(codec.encode(codec.decode(name, known, data[2:]), known))

    seen = set()
    for path in story.killed.directory.glob(f"{topic}-*/*.log"):
        for position, header in iter_batches(data := path.read_bytes()):
            if header.is_control:
                continue
            for record in iter_records(data[position : position + header.size], 1 << 20):
                assert record.key is not None
                kind = int.from_bytes(record.key[:2], "big")
                key, value = COORDINATORS[topic][kind]
                assert written_back(key, record.key) == record.key
                if record.value is not None:
                    seen.add(kind)
                    assert written_back(value, record.value) == record.value
    assert seen


# -- what does not fit ---------------------------------------------------------------------------------------------


def metadata_log(directory: Path) -> Path:
    return max((directory / kraft.DIRECTORY).glob("*.log"))


def say(kind: int, body: bytes, version: int = 0) -> Callable[[Path], None]:
    """Let the metadata log say one more thing."""

    def append(directory: Path) -> None:
        end = kraft.read_metadata(directory / kraft.DIRECTORY).end_offset
        record = Record(end, 0, None, bytes([kraft.FRAME_VERSION, kind, version]) + body)
        with metadata_log(directory).open("ab") as file:
            file.write(build_batch([record], base_offset=end, leader_epoch=9))

    return append


def say_of_plain(**changes: object) -> Callable[[Path], None]:
    def append(directory: Path) -> None:
        topics = kraft.read_metadata(directory / kraft.DIRECTORY).topics
        (topic_id,) = (one for one, name in topics.items() if name == "plain")
        record = messages.PartitionChangeRecord(partition_id=1, topic_id=topic_id, **changes)  # type: ignore[arg-type]
        say(5, bytes(codec.encode(record, 2)), 2)(directory)

    return append


def config(kind: int, name: str, key: str, value: str) -> Callable[[Path], None]:
    record = messages.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
    return say(4, bytes(codec.encode(record, 0)))


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def replace(directory: Path) -> None:
        text = (directory / name).read_text()
        assert old in text
        (directory / name).write_text(text.replace(old, new))

    return replace


def remove(name: str) -> Callable[[Path], None]:
    def delete(directory: Path) -> None:
        path = directory / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return delete


def flip(directory: Path) -> None:
    path = metadata_log(directory)
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    for snapshot in path.parent.glob("*.checkpoint"):
        snapshot.unlink()


def flip_snapshot(directory: Path) -> None:
    path = max((directory / kraft.DIRECTORY).glob("*.checkpoint"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def put_old_formats(directory: Path) -> list[Record]:
    """Begin the log of an empty partition with messages of formats 0 and 1, alone and in wrappers."""
    written, data = [], b""
    for at, (magic, codec_number, time) in enumerate([(0, 0, -1), (0, 1, -1), (1, 0, 50), (1, 2, 60), (1, 3, 70)]):
        records = [Record(10 * at + n, time + n if magic else -1, b"k", f"{at}.{n}".encode()) for n in (0, 1, 4)]
        data += downconvert(build_batch(records, codec=codec_number, base_offset=10 * at), magic, limit=10_000)
        written += records
    (directory / "changed-2" / f"{0:020d}.log").write_bytes(
        data + build_batch([Record(50, 80, b"k", b"new")], base_offset=50)
    )
    return [*written, Record(50, 80, b"k", b"new")]


def damaged_old_format(directory: Path) -> None:
    put_old_formats(directory)
    path = directory / "changed-2" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)


UNFIT = {
    "nobody's": (remove("meta.properties"), "has no meta.properties"),
    "ZooKeeper's": (edit("meta.properties", "version=1", "version=0"), "to a Kafka with ZooKeeper"),
    "of a newer form": (edit("meta.properties", "version=1", "version=2"), "has version 2, known is 1"),
    "without an id": (edit("meta.properties", "directory.id", "other.id"), "lacks cluster.id, node.id or directory.id"),
    "ottla's": (lambda directory: (directory / "coordination.db").touch(), "belongs to an ottla"),
    "another node's": (edit("meta.properties", "node.id=1", "node.id=2"), "has other nodes (1) beside 2"),
    "without metadata": (remove(kraft.DIRECTORY), "no metadata log __cluster_metadata-0"),
    "damaged": (flip, "CRC"),
    "with a damaged snapshot": (flip_snapshot, "CRC"),
    "with strange voters": (
        edit(f"{kraft.DIRECTORY}/quorum-state", '"voterId":1', '"voterId":3'),
        "has other nodes (3) beside 1",
    ),
    "newer": (
        say(12, bytes(codec.encode(messages.FeatureLevelRecord(name="metadata.version", feature_level=31), 0))),
        "metadata.version 31; those of Kafka 4.3 are 7 to 30",
    ),
    "of a strange kind": (say(99, b""), "a metadata record of type 99"),
    "with two brokers": (say(0, struct.pack(">i", 2)), "has other nodes (2) beside 1"),
    "with two controllers": (say(27, struct.pack(">i", 2)), "has other nodes (2) beside 1"),
    "with ACLs": (say(18, b""), "has 1 ACLs: ottla would serve everybody without them"),
    "with passwords": (say(11, b""), "has 1 SCRAM credentials"),
    "tiered": (config(2, "plain", "remote.storage.enable", "true"), "plain has tiered storage"),
    "with a strange config": (config(2, "plain", "flush.speed", "9"), "flush.speed"),
    "replicated": (say_of_plain(replicas=[1, 2]), "plain-1 has replicas [1, 2], not only 1"),
    "on the move": (say_of_plain(adding_replicas=[2]), "or is being moved"),
    "offline": (say_of_plain(isr=[], eligible_leader_replicas=[]), "plain-1 is offline"),
    "spread": (say_of_plain(directories=[b"x" * 16]), "plain-1 lies in another directory (id eHh4eHh4"),
    "lost": (say_of_plain(directories=[kraft.LOST]), "plain-1 lies in another directory"),
    "with a part missing": (remove("plain-1"), "lacks plain-1"),
    "of another topic": (
        lambda directory: (directory / "plain-1/partition.metadata").write_text(f"version: 0\ntopic_id: {'A' * 22}"),
        "is of another topic with the same name",
    ),
    "damaged in an old format": (damaged_old_format, "in an old message format, is damaged"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_does_not_fit_is_told_and_left_untouched(
    story: Story, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, told = UNFIT[name]
    directory = copied(story.clean, tmp_path / "data")
    change(directory)
    before = tree(directory)
    assert main.run(["adopt", "--yes", str(directory)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("ottla: ")
    assert error.count("\n") == 1
    assert told in error
    assert tree(directory) == before


def test_a_directory_in_use_is_left_alone(story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = copied(story.clean, tmp_path / "data")
    with (directory / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main.run(["adopt", "--yes", str(directory)]) == 1
    assert "a broker is running on" in capsys.readouterr().err
    assert not (directory / "coordination.db").exists()


def test_settings_that_were_set_at_run_time_are_taken_over(
    story: Story, tmp_path: Path, ottla_broker_factory: Callable[..., BrokerProcess]
) -> None:
    directory = copied(story.clean, tmp_path / "data")
    config(4, "", "log.cleaner.threads", "2")(directory)
    config(4, "1", "message.max.bytes", "5000")(directory)
    config(16, "a subscription", "interval.ms", "1000")(directory)
    config(32, "a/group", "consumer.session.timeout.ms", "50000")(directory)
    assert main.run(["adopt", "--yes", str(directory)]) == 0
    wire = Wire("127.0.0.1", ottla_broker_factory(directory, {"node.id": "1"}).port)
    for type, name, key, value in (
        (4, "1", "log.cleaner.threads", "2"),
        (4, "1", "message.max.bytes", "5000"),
        (16, "a subscription", "interval.ms", "1000"),
        (32, "a/group", "consumer.session.timeout.ms", "50000"),
    ):
        asked = messages.DescribeConfigsRequest.Resource(
            resource_type=type, resource_name=name, configuration_keys=[key]
        )
        (result,) = wire.call(messages.DescribeConfigsRequest(resources=[asked]), 4).results
        assert [row.value for row in result.configs] == [value]
    wire.close()


def test_what_is_not_taken_over_is_told(story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = copied(story.clean, tmp_path / "data")
    config(4, "1", "num.io.threads", "4")(directory)
    config(16, "metrics", "interval.ms", "1")(directory)
    config(32, "group", "share.session.timeout.ms", "50000")(directory)
    say(14, b"")(directory)
    (directory / "unknown-7").mkdir()
    assert main.run(["adopt", "--yes", str(directory)]) == 0
    told = capsys.readouterr().out
    assert "not taken over of resource '1' (type 4): num.io.threads has no effect" in told
    assert "not taken over of resource 'metrics' (type 16): interval.ms=1 is illegal" in told
    assert "not taken over of resource 'group' (type 32): unknown key share.session.timeout.ms" in told
    assert "client quotas are not taken over" in told
    assert "unknown-7 belongs to no topic" in told
    assert (directory / "kafka-originals" / "unknown-7").is_dir()


def test_records_in_old_formats_are_written_anew_and_can_be_had_back(story: Story, tmp_path: Path) -> None:
    directory = copied(story.clean, tmp_path / "data")
    written = put_old_formats(directory)
    before = tree(directory)
    assert main.run(["adopt", "--yes", str(directory)]) == 0
    with BrokerProcess(directory, {"log.cleaner.enable": "false"}) as broker:
        records, ranges = read_all(broker.bootstrap, [("changed", 2)])
        assert broker.stop() == 0
    assert [(one.offset, one.key, one.value) for one in records["changed", 2]] == [
        (record.offset, record.key, record.value) for record in written
    ]
    times = [time for kind, time in (one.timestamp for one in records["changed", 2])]
    assert [time for time in times if time > 0] == [record.timestamp for record in written if record.timestamp > 0]
    assert ranges["changed", 2] == (0, 51)
    assert main.run(["adopt", "--yes", "--undo", str(directory)]) == 0
    name = f"changed-2/{0:020d}.log"
    assert tree(directory)[name] == before[name]


def test_both_dump_old_formats_alike(
    story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = copied(story.clean, tmp_path / "data")
    put_old_formats(directory)
    file = Path("changed-2") / f"{0:020d}.log"
    printed, _ = dump_log_segments([file], "--print-data-log", directory=directory)
    monkeypatch.chdir(directory)
    assert main.run(["dump-log", "--print-data-log", "--files", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == printed.splitlines()


def test_an_adoption_that_was_cut_short_is_no_loss(
    state: State, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    directory = copied(state, tmp_path / "data")
    before = tree(directory)
    with monkeypatch.context() as patched:
        patched.setattr("ottla.controller.adoption.replace_file", full)
        assert main.run(["adopt", "--yes", str(directory)]) == 1
    assert (
        "No space left on device; if anything was changed, ottla adopt --undo takes it back" in capsys.readouterr().err
    )
    with pytest.raises(BrokerFailed, match="belongs to an Apache Kafka"):
        BrokerProcess(directory).start()
    assert main.run(["adopt", "--yes", str(directory)]) == 1
    assert "was taken over before, wholly or in part" in capsys.readouterr().err
    assert main.run(["adopt", "--yes", "--undo", str(directory)]) == 0
    assert tree(directory) == before
