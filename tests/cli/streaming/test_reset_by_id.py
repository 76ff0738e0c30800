"""`ottla streams reset --application-id`, which needs neither a file nor Spark, and compare.

That kafka-streams-application-reset prints what Kafka's own tool prints is seen in tests/apache_kafka/test_tools.py.
"""

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.pipelines.state_directory import StateDirectory
from support.tools import Tool

NAMES = (f"app{n}" for n in itertools.count())


@pytest.fixture
def name() -> str:
    """An application's id that no other test has."""
    return next(NAMES)


@pytest.fixture
def reset(group_broker, tmp_path: Path) -> Tool:
    return Tool("ottla streams reset", group_broker.bootstrap, tmp_path)


@pytest.fixture
def made(group_broker) -> Callable[..., None]:
    def make(*topics: str, partitions: int = 1, records: int = 0) -> None:
        admin = AdminClient({"bootstrap.servers": group_broker.bootstrap})
        for future in admin.create_topics([NewTopic(topic, partitions) for topic in topics]).values():
            future.result(30)
        producer = Producer({"bootstrap.servers": group_broker.bootstrap})
        for topic, partition, n in itertools.product(topics, range(partitions), range(records)):
            producer.produce(topic, str(n), partition=partition, timestamp=1_000 * (n + 1))
        assert producer.flush(30) == 0

    return make


@pytest.fixture(scope="module")
def _two_partitions(group_broker) -> None:
    admin = AdminClient({"bootstrap.servers": group_broker.bootstrap})
    admin.create_topics([NewTopic("in", 2)])["in"].result(30)


def topics(group_broker) -> list[str]:
    return list(AdminClient({"bootstrap.servers": group_broker.bootstrap}).list_topics(timeout=30).topics)


def offsets(group_broker, group: str) -> list[str]:
    rows = Tool("ottla consumer-groups", group_broker.bootstrap)(f"--describe --group {group} --output json").json
    return [f"{row['topic']}-{row['partition']}: {row['current_offset']}" for row in rows]


def test_offsets_internal_topics_and_local_state_are_reset(name, reset, made, group_broker, tmp_path) -> None:
    made(f"{name}-in", partitions=2, records=3)
    made(f"{name}-count-changelog", f"{name}-by-word-repartition", f"{name}-count", f"{name}x-count-changelog")
    state = StateDirectory(tmp_path / "data" / "streams", name)
    state.checkpoints.mkdir(parents=True)
    said = reset(f"--application-id {name} --input-topics {name}-in --yes")
    assert (said.status, said.err) == (0, [])
    assert said.out == [
        f"Reset of application {name}",
        f"  read from {name}-in, partitions and offsets 0: 0, 1: 0",
        f"  delete    internal topic {name}-by-word-repartition",
        f"  delete    internal topic {name}-count-changelog",
        f"  delete    checkpoints and stores in data/streams/{name}",
        f"Application {name} begins anew when it is started.",
    ]
    assert offsets(group_broker, name) == [f"{name}-in-0: 0", f"{name}-in-1: 0"]
    left = topics(group_broker)
    assert f"{name}-count" in left
    assert f"{name}x-count-changelog" in left
    assert f"{name}-count-changelog" not in left
    assert f"{name}-by-word-repartition" not in left
    assert [entry.name for entry in state.contents()] == ["start.json"]
    assert state.starts() == {f"{name}-in": {0: 0, 1: 0}}


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("", 0),
        ("--to-latest", 5),
        ("--to-offset 3", 3),
        ("--to-offset 9", 5),
        ("--to-datetime 1970-01-01T00:00:02.500", 2),
        ("--to-datetime 2099-01-01T00:00:00.000", 5),
        ("--shift-by -2", 3),
        ("--from-file plan.csv", 1),
    ],
)
def test_where_an_application_begins_can_be_said(name, reset, made, tmp_path, words: str, start: int) -> None:
    topic = f"{name}-in"
    made(topic, records=5)
    (tmp_path / "plan.csv").write_text(f"{topic},0,1\n")
    assert reset(f"--application-id {name} --input-topics {topic} --state-dir state --yes {words}").status == 0
    assert StateDirectory(tmp_path / "state", name).starts() == {topic: {0: start}}


def test_intermediate_topics_are_skipped_to_their_ends(name, reset, made, tmp_path) -> None:
    made(f"{name}-in", f"{name}-mid", records=5)
    words = f"--input-topics {name}-in --intermediate-topics {name}-mid --state-dir state --yes"
    assert reset(f"--application-id {name} {words}").status == 0
    assert StateDirectory(tmp_path / "state", name).starts() == {f"{name}-in": {0: 0}, f"{name}-mid": {0: 5}}


def test_topics_that_are_not_named_go_on_where_they_were(name, reset, made, tmp_path, group_broker) -> None:
    made(f"{name}-again", f"{name}-on", records=5)
    groups = Tool("ottla consumer-groups", group_broker.bootstrap, tmp_path)
    groups(f"--reset-offsets --group {name} --topic {name}-again --topic {name}-on --to-offset 3 --execute")
    said = reset(f"--application-id {name} --input-topics {name}-again --state-dir state --yes")
    assert (said.status, said.err) == (0, [])
    assert f"  go on at  {name}-on, partitions and offsets 0: 3" in said.out
    assert StateDirectory(tmp_path / "state", name).starts() == {f"{name}-again": {0: 0}, f"{name}-on": {0: 3}}


def test_a_dry_run_changes_nothing(name, reset, made, group_broker, tmp_path) -> None:
    made(f"{name}-in", f"{name}-a-changelog", records=1)
    state = StateDirectory(tmp_path / "data" / "streams", name)
    state.checkpoints.mkdir(parents=True)
    said = reset(f"--application-id {name} --input-topics {name}-in --dry-run")
    assert (said.status, said.out[-1]) == (0, "Nothing was done (--dry-run).")
    assert f"{name}-a-changelog" in topics(group_broker)
    assert state.checkpoints.is_dir()
    assert offsets(group_broker, name) == []


def test_only_some_internal_topics_are_deleted_if_that_is_wanted(name, reset, made, group_broker) -> None:
    made(f"{name}-a-changelog", f"{name}-b-changelog", f"{name}-c")
    said = reset(f"--application-id {name} --internal-topics {name}-c --yes")
    assert said.status == 1
    assert said.err == [
        f"ottla: {name}-c cannot be deleted as an internal topic: those of {name} are {name}-a-changelog, "
        f"{name}-b-changelog"
    ]
    assert reset(f"--application-id {name} --internal-topics {name}-b-changelog --yes").status == 0
    left = topics(group_broker)
    assert f"{name}-a-changelog" in left
    assert f"{name}-b-changelog" not in left


def test_an_application_that_runs_is_left_alone(name, reset, made, group_broker, tmp_path) -> None:
    made(f"{name}-a-changelog")
    with StateDirectory(tmp_path / "data" / "streams", name).lock():
        said = reset(f"--application-id {name} --yes")
    assert said.status == 1
    assert said.err[0].startswith(f"ottla: application {name} runs already, with its state in data/streams/{name}")
    assert f"{name}-a-changelog" in topics(group_broker)


def test_members_of_its_group_are_put_out_only_by_force(name, reset, made, group_broker) -> None:
    made(f"{name}-in", records=1)
    settings = {"bootstrap.servers": group_broker.bootstrap, "group.id": name, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "session.timeout.ms": 45_000})
    consumer.subscribe([f"{name}-in"])
    while consumer.poll(30) is None:
        pass
    said = reset(f"--application-id {name} --input-topics {name}-in --yes")
    assert said.status == 1
    assert f"Consumer group '{name}' is still active and has 1 members" in said.err[0]
    said = reset(f"--application-id {name} --input-topics {name}-in --yes --force")
    assert (said.status, said.err) == (0, [])
    assert said.out[0] == f"Force deleting all active members in the group: {name}"
    consumer.close()


def test_nothing_is_done_unasked(name, reset, made, group_broker) -> None:
    made(f"{name}-a-changelog")
    said = reset(f"--application-id {name}")
    assert (said.status, said.err) == (1, [f"ottla: Reset application {name}: say --yes to do it without being asked"])
    assert f"{name}-a-changelog" in topics(group_broker)


def test_no_spark_is_needed(name, made, group_broker) -> None:
    made(f"{name}-in", records=1)
    words = f"--bootstrap-server {group_broker.bootstrap} --application-id {name} --input-topics {name}-in"
    code = (
        "import sys; sys.modules['pyspark'] = None; from ottla.cli.main import run_by_kafka_name;"
        f"sys.exit(run_by_kafka_name('kafka-streams-application-reset', {words.split()!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Topic: {name}-in Partition: 0 Offset: 0" in done.stdout
    assert offsets(group_broker, name) == [f"{name}-in-0: 0"]


def test_a_topic_that_is_not_there_is_told(name, reset) -> None:
    said = reset(f"--application-id {name} --input-topics {name}-nobody --dry-run")
    assert said.status == 1
    assert f"  not there topic {name}-nobody" in said.out


@pytest.mark.usefixtures("_two_partitions")
@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("", 2, "which application is to be reset? FILE.py or --application-id is missing"),
        ("--application-id a --to-latest --to-offset 1", 2, "--to-latest cannot go with --to-offset"),
        ("--application-id a --delete-output-topics", 2, "--delete-output-topics needs FILE.py"),
        ("--application-id a --app b", 2, "--app needs FILE.py"),
        ("--application-id a --input-topics in --from-file none.csv", 2, "cannot read none.csv"),
        ("--application-id a --input-topics in --from-file short.csv", 1, "short.csv says nothing of in-1"),
        ("--application-id a --input-topics in --from-file long.csv", 1, "long.csv: else-0 is no partition of the in"),
        ("--application-id a --input-topics in --by-duration 5", 2, "--by-duration 5 must be PnDTnHnMnS"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(reset, tmp_path, words: str, status: int, told: str) -> None:
    (tmp_path / "short.csv").write_text("in,0,0\n")
    (tmp_path / "long.csv").write_text("in,0,0\nin,1,0\nelse,0,0\n")
    said = reset(f"{words} --yes")
    assert said.status == status
    assert len(said.err) == 1
    assert told in said.err[0]
