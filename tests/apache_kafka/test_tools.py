"""ottla's tools and Kafka's own print the same: of an ottla broker, and of an Apache Kafka."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from ottla.testing import BrokerProcess
from support import kafka_tools
from support.apache_kafka import ApacheKafka, reason_to_skip
from support.open_transactions import begun
from support.tools import Tool
from support.transcripts import run_here

COMMANDS = [
    "kafka-topics --list",
    "kafka-topics --describe",
    "kafka-topics --describe --topic nobody",
    "kafka-topics --describe --topics-with-overrides",
    "kafka-topics --describe --at-min-isr-partitions --exclude-internal",
    "kafka-topics --create --topic t --partitions 2 --replication-factor 1",
    "kafka-topics --create --topic u --if-not-exists",
    "kafka-topics --alter --topic t --partitions 1",
    "kafka-configs --describe --topic t",
    "kafka-configs --describe --topic t --all",
    "kafka-configs --describe --entity-type brokers",
    "kafka-configs --describe --entity-type client-metrics",
    "kafka-get-offsets",
    "kafka-get-offsets --topic-partitions t:1-,u --time earliest",
    "kafka-log-dirs --describe --topic-list u",
    "kafka-leader-election --election-type preferred --all-topic-partitions",
    "kafka-leader-election --election-type preferred --topic t --partition 1",
    "kafka-reassign-partitions --list",
    "kafka-reassign-partitions --generate --topics-to-move-json-file topics.json --broker-list NODE",
    "kafka-reassign-partitions --execute --reassignment-json-file reassign.json",
    "kafka-reassign-partitions --verify --reassignment-json-file reassign.json --preserve-throttles",
    "kafka-cluster cluster-id",
    "kafka-cluster list-endpoints",
]
TRANSACTIONS = [
    "kafka-transactions list",
    "kafka-transactions list --transactional-id-pattern d.*",
    "kafka-transactions list --duration-filter 3600000",
    "kafka-transactions describe --transactional-id nobody",
    "kafka-transactions describe-producers --topic t --partition 0",
    "kafka-transactions describe-producers --topic u --partition 0 --broker-id NODE",
    "kafka-transactions find-hanging --topic u",  # an old one, but its coordinator knows of it
    "kafka-transactions abort --topic t --partition 0 --start-offset 7",
]
GROUPS = [
    "kafka-consumer-groups --list",
    "kafka-consumer-groups --list --state --type",
    "kafka-consumer-groups --list --state empty,stable",
    "kafka-consumer-groups --list --type consumer",
    "kafka-consumer-groups --describe --all-groups",
    "kafka-consumer-groups --describe --group read --verbose",
    "kafka-consumer-groups --describe --group reading --members",
    "kafka-consumer-groups --describe --group reading --members --verbose",
    "kafka-consumer-groups --describe --group read --group reading --state",
    "kafka-consumer-groups --describe --group reading --state --verbose",
    "kafka-consumer-groups --describe --group reading-too --members --verbose",
    "kafka-consumer-groups --describe --group reading-too --state --verbose",
    "kafka-consumer-groups --reset-offsets --group read --to-earliest --topic t:1",
    "kafka-consumer-groups --reset-offsets --group read --to-latest --all-topics --dry-run",
    "kafka-consumer-groups --reset-offsets --group read --shift-by -1 --topic t:0 --dry-run",
    "kafka-consumer-groups --reset-offsets --group nobody --to-current --topic u --dry-run",
    "kafka-consumer-groups --reset-offsets --group read --by-duration PT1H --topic t:0 --export --dry-run",
    "kafka-consumer-groups --reset-offsets --group read --group nobody --to-offset 1 --topic t:0 --export --dry-run",
    "kafka-consumer-groups --reset-offsets --group nobody --from-file plan.csv --execute",
    "kafka-consumer-groups --delete --group nobody",
    "kafka-consumer-groups --validate-regex a.*",
]
STREAMS = [
    f"kafka-streams-application-reset --application-id {words}"
    for words in (
        "other --input-topics t --intermediate-topics u --to-offset 1",
        "other --input-topics t --shift-by 1 --dry-run",
        "other --input-topics t --shift-by -7 --dry-run",
        "app --dry-run",
        "app --input-topics t,nobody --intermediate-topics u,gone --dry-run",
        "app --input-topics nobody --dry-run",
        "app --input-topics t --to-latest --dry-run",
        "app --input-topics t --to-offset 30 --internal-topics app-x-changelog --dry-run",
        "app --input-topics t --from-file both.csv --dry-run",
        "app --input-topics t --to-datetime 2099-01-01T00:00:00.000 --dry-run",
        "app --input-topics t --by-duration P1D --dry-run",
        "app --input-topics t --shift-by 2 --dry-run --force --config-file empty",
        "app --input-topics t --to-earliest --dry-run --command-config empty",
    )
]
QUOTAS = [
    "kafka-configs --describe --entity-type users",
    "kafka-configs --describe --entity-type clients",
    "kafka-configs --describe --entity-type users --entity-name alice --entity-type clients --entity-default",
    "kafka-configs --describe --user alice",
    "kafka-configs --describe --entity-type ips --entity-default",
]


PLAN = "--reset-offsets --group nobody --from-file plan.csv --execute"


def compare(commands: list[str], bootstrap: str, node: int, directory: Path) -> None:
    """Every command prints the same lines, and has the same status, whoever's tool it is."""
    topics = {"topics": [{"topic": "t"}], "version": 1}
    (directory / "plan.csv").write_text("t,0,1\n")
    (directory / "both.csv").write_text("t,0,1\nt,1,100\n")
    (directory / "empty").write_text("")
    (directory / "topics.json").write_text(json.dumps(topics))
    partitions = [{"topic": "t", "partition": index, "replicas": [node]} for index in range(2)]
    (directory / "reassign.json").write_text(json.dumps({"partitions": partitions, "version": 1}))
    asked = [f"{command} --bootstrap-server {bootstrap}".replace("NODE", str(node)) for command in commands]
    told = kafka_tools.run([_options_first(command) for command in asked], directory)
    for command, (status, said) in zip(asked, told):
        if "--delete --group nobody" in command:  # Kafka's tool has done it already
            run_here(shlex.split(f"kafka-consumer-groups --bootstrap-server {bootstrap} {PLAN}"), "", directory)
        ours = run_here(shlex.split(command), "", directory)
        assert (ours[0], _trimmed(ours[1])) == (status, _trimmed(said)), f"{command}\n{ours[2]}"


def _options_first(command: str) -> str:
    """Some of Kafka's tools want their server, which stands last here, before what they shall do."""
    if command.startswith(("kafka-features", "kafka-transactions")):
        name, *words = shlex.split(command)
        return shlex.join([name, *words[-2:], *words[:-2]])
    return command


def _trimmed(lines: list[str]) -> list[str]:
    """Without empty lines at the end, and without requests that the broker does not serve, of which Kafka's tool knows
    more; a topic's configs, the credentials of users, offsets, which it shows in no order, sorted."""
    lines = [line.removesuffix(",") for line in lines if "): UNSUPPORTED" not in line]
    if any(line.startswith(("SCRAM ", "Topic: ")) or line.endswith("NEW-OFFSET") for line in lines):
        lines = sorted(filter(None, lines))
    text = re.sub(
        r"(?<=\tConfigs: )\S+", lambda found: ",".join(sorted(found[0].split(","))), "\n".join(lines).rstrip("\n")
    )
    return text.split("\n")


def _levels(features: Tool) -> list[str]:
    """Without the epoch, which goes up as time goes by."""
    return [line.partition("Epoch:")[0] for line in features.works("describe")]


def prepare(bootstrap: str) -> None:
    topics = Tool("kafka-topics", bootstrap)
    topics.works("--create --topic t --partitions 2 --replication-factor 1 --config retention.ms=5000")
    topics.works("--create --topic u --partitions 1 --replication-factor 1")
    configs = Tool("kafka-configs", bootstrap)
    configs.works("--alter --broker-defaults --add-config log.cleaner.threads=2")
    configs.works("--alter --client-metrics m --add-config interval.ms=5000")


def compare_transactions(bootstrap: str, node: int, directory: Path) -> None:
    begun(bootstrap, "done", "t").commit_transaction(30)
    producer = begun(bootstrap, "open", "u", timestamp=1_700_000_000_000)
    compare(TRANSACTIONS, bootstrap, node, directory)
    tool = Tool("kafka-transactions", bootstrap)
    assert tool.works("abort --topic u --partition 0 --start-offset 0") == []
    assert "None" in tool.works("describe-producers --topic u --partition 0")[1]
    assert tool.works("forceTerminateTransaction --transactionalId open") == []
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)


def compare_streams(bootstrap: str, node: int, directory: Path) -> None:
    topics = Tool("kafka-topics", bootstrap)
    own, not_own = "app-x-changelog", "app-topic"
    for name in (own, not_own):
        topics.works(f"--create --topic {name} --partitions 1 --replication-factor 1")
    compare(STREAMS, bootstrap, node, directory)
    Tool("kafka-streams-application-reset", bootstrap).works("--application-id app")
    assert own not in (left := topics.works("--list"))
    assert not_own in left


@contextmanager
def consumers(bootstrap: str) -> Iterator[None]:
    """One group that has read and is gone, and one of each protocol with a member that reads."""
    keyed = "--topic t --timeout 0 --property parse.key=true --property key.separator=,"
    assert Tool("kafka-console-producer", bootstrap)(keyed, "a,0\na,1\ng,2\n").status == 0  # a and g: both partitions
    consumer = Tool("kafka-console-consumer", bootstrap)
    assert consumer("--topic t --group read --from-beginning --max-messages 3").status == 0
    with _reading(bootstrap, "reading", "classic"), _reading(bootstrap, "reading-too", "consumer"):
        yield


@contextmanager
def _reading(bootstrap: str, group: str, protocol: str) -> Iterator[None]:
    words = ["--topic", "t", "--group", group, "--from-beginning", "--bootstrap-server", bootstrap]
    words += ["--consumer-property", f"group.protocol={protocol}"]
    words += ["--consumer-property", "enable.auto.commit=false"]  # what is shown shall not change meanwhile
    with subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", "console-consumer", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline()
        try:
            yield
        finally:
            process.terminate()


@pytest.fixture(autouse=True)
def _java() -> None:
    reason = reason_to_skip()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(f"in CI the tests with Apache Kafka must run: {reason}")
        pytest.skip(reason)


def test_of_an_ottla_broker(ottla_broker: BrokerProcess, tmp_path: Path) -> None:
    prepare(ottla_broker.bootstrap)
    compare([*COMMANDS, "kafka-features describe", "kafka-broker-api-versions"], ottla_broker.bootstrap, 0, tmp_path)
    with consumers(ottla_broker.bootstrap):
        compare(GROUPS, ottla_broker.bootstrap, 0, tmp_path)
    compare_streams(ottla_broker.bootstrap, 0, tmp_path)
    compare_transactions(ottla_broker.bootstrap, 0, tmp_path)


def test_of_an_apache_kafka(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    kafka = ApacheKafka(tmp_path / "kafka")
    try:
        kafka.start()
        prepare(kafka.bootstrap)
        configs = Tool("kafka-configs", kafka.bootstrap)
        configs.works("--alter --client c --add-config producer_bytes_rate=1000,consumer_byte_rate=2000")
        configs.works("--alter --user alice --client-defaults --add-config request_percentage=50")
        configs.works("--alter --user alice --add-config 'SCRAM-SHA-256=[iterations=8192,password=x]'")
        configs.works("--alter --user bob --add-config SCRAM-SHA-512=[password=x]")
        configs.works("--alter --user bob --add-config controller_mutation_rate=5")
        configs.works("--alter --ip-defaults --add-config connection_creation_rate=10000")
        compare([*COMMANDS, *QUOTAS], kafka.bootstrap, 1, tmp_path)
        with consumers(kafka.bootstrap):
            compare(GROUPS, kafka.bootstrap, 1, tmp_path)
        compare_streams(kafka.bootstrap, 1, tmp_path)
        compare_transactions(kafka.bootstrap, 1, tmp_path)
        configs.works("--alter --user bob --delete-config SCRAM-SHA-512")
        configs.works("--alter --user bob --delete-config controller_mutation_rate")
        assert configs.works("--describe --user bob") == []
        features = Tool("kafka-features", kafka.bootstrap)
        before = _levels(features)
        name = "transaction.version"
        assert features.works(f"downgrade --feature {name}=1 --dry-run") == [f"{name} can be downgraded to 1."]
        assert _levels(features) == before
        assert features.works(f"downgrade --feature {name}=1") == [f"{name} was downgraded to 1."]
        assert features.works(f"upgrade --feature {name}=2") == [f"{name} was upgraded to 2."]
        refused = configs("--alter --client c --delete-config request_percentage")
        assert (refused.status, refused.err) == (1, ["kafka-configs: Invalid config(s): request_percentage"])
    finally:
        kafka.kill()
