from pathlib import Path
from uuid import uuid4

import pytest

from ottla.cli.configs import parsed_configs
from support.tools import Tool


@pytest.fixture
def configs(ottla_shared_broker, tmp_path: Path) -> Tool:
    return Tool("kafka-configs.sh", ottla_shared_broker.bootstrap, tmp_path)


@pytest.fixture
def ours(ottla_shared_broker) -> Tool:
    return Tool("ottla configs", ottla_shared_broker.bootstrap)


@pytest.fixture
def topic(ottla_shared_broker) -> str:
    name = f"configs-{uuid4().hex[:8]}"
    Tool("kafka-topics", ottla_shared_broker.bootstrap).works(f"--create --topic {name}")
    return name


def test_settings_of_a_topic_are_set_shown_and_removed(configs, topic) -> None:
    entity = f"--entity-type topics --entity-name {topic}"
    done = f"Completed updating config for topic {topic}."
    assert configs.works(f"--alter {entity} --add-config 'retention.ms=5000,cleanup.policy=[compact,delete]'") == [done]
    assert configs.works(f"--describe {entity}") == [
        f"Dynamic configs for topic {topic} are:",
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
        "DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "  retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000, "
        "DEFAULT_CONFIG:log.retention.hours=168}",
    ]
    assert configs.works(f"--alter --topic {topic} --delete-config retention.ms,cleanup.policy") == [done]
    assert configs.works(f"--describe --topic {topic}") == [f"Dynamic configs for topic {topic} are:"]
    every = configs.works(f"--describe --topic {topic} --all")
    assert every[0] == f"All configs for topic {topic} are:"
    assert len(every) > 25
    assert f"Dynamic configs for topic {topic} are:" in configs.works("--describe --entity-type topics")


def test_settings_come_from_a_file(configs, topic, tmp_path) -> None:
    (tmp_path / "new.properties").write_text("segment.ms = 7000\n# remark\nretention.bytes: 10\n")
    configs.works(f"--alter --topic {topic} --add-config-file new.properties")
    lines = configs.works(f"--describe --topic {topic}")
    assert [line.split()[0] for line in lines[1:]] == ["retention.bytes=10", "segment.ms=7000"]


def test_settings_of_a_broker_and_of_all_brokers(configs) -> None:
    assert configs.works("--alter --broker 0 --add-config log.cleaner.threads=2") == [
        "Completed updating config for broker 0."
    ]
    default = "--entity-type brokers --entity-default"
    try:
        assert configs.works(f"--alter {default} --add-config log.cleaner.threads=3") == [
            "Completed updating default config for brokers in the cluster."
        ]
        assert configs.works("--describe --entity-type brokers") == [
            "Dynamic configs for broker 0 are:",
            "  log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2, "
            "DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.threads=3, DEFAULT_CONFIG:log.cleaner.threads=1}",
            "Default configs for brokers in the cluster are:",
            "  log.cleaner.threads=3 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.threads=3}",
        ]
    finally:
        configs.works("--alter --entity-type brokers --entity-name 0 --delete-config log.cleaner.threads")
        configs.works("--alter --broker-defaults --delete-config log.cleaner.threads")
    assert configs.works("--describe --broker-defaults") == ["Default configs for brokers in the cluster are:"]


def test_levels_of_loggers(configs) -> None:
    configs.works("--alter --broker-logger 0 --add-config ottla.net.listener=DEBUG")
    lines = configs.works("--describe --entity-type broker-loggers --entity-name 0")
    assert any(line.startswith("  ottla.net.listener=DEBUG ") for line in lines)
    configs.works("--alter --broker-logger 0 --delete-config ottla.net.listener")
    said = configs("--alter --broker-logger 0 --add-config no.such.logger=DEBUG")
    assert (said.status, said.err) == (1, ["kafka-configs.sh: Invalid broker logger(s): no.such.logger"])


def test_client_metrics_and_groups(configs) -> None:
    name = uuid4().hex[:8]
    assert configs.works(f"--alter --client-metrics {name} --add-config interval.ms=5000") == [
        f"Completed updating config for client-metric {name}."
    ]
    assert f"Dynamic configs for client-metric {name} are:" in configs.works("--describe --entity-type client-metrics")
    configs.works(f"--alter --group {name} --add-config consumer.session.timeout.ms=50000")
    described = configs.works("--describe --entity-type groups")
    assert described[described.index(f"Dynamic configs for group {name} are:") + 1].startswith(
        "  consumer.session.timeout.ms=50000 "
    )


def test_settings_are_json_for_programs(ours, topic) -> None:
    ours.works(f"--alter --topic {topic} --add-config segment.ms=9000")
    (row,) = ours(f"--topic {topic} --output json").json
    assert (row["type"], row["name"], row["key"], row["value"]) == ("topics", topic, "segment.ms", "9000")
    assert row["synonyms"][0] == "DYNAMIC_TOPIC_CONFIG:segment.ms=9000"


def test_lists_of_settings_are_taken_apart_outside_of_brackets() -> None:
    assert parsed_configs("a=b, c = [d,e=f] ,g=") == {"a": "b", "c": "d,e=f", "g": ""}
    assert parsed_configs("SCRAM-SHA-256=[iterations=8192,password=x]") == {
        "SCRAM-SHA-256": "iterations=8192,password=x"
    }


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("--alter --topic T --add-config no.such.key=1", 1, "INVALID_CONFIG: unknown key no.such.key"),
        ("--alter --topic T --add-config retention.ms=x", 1, "INVALID_CONFIG: "),
        ("--alter --topic T-no --add-config retention.ms=1", 1, "UNKNOWN_TOPIC_OR_PARTITION: there is no topic"),
        ("--describe --topic T-no", 1, "UNKNOWN_TOPIC_OR_PARTITION: "),
        ("--alter --broker 7 --add-config log.cleaner.threads=1", 1, "there is no broker 7"),
        ("--alter --broker 0 --add-config node.id=1", 1, "node.id"),
        ("--alter --client c --add-config retention.ms=1", 1, "retention.ms cannot be set for clients"),
        ("--alter --ip 10.0.0.1 --add-config producer_byte_rate=1", 1, "cannot be set for ips: connection_creation"),
        ("--alter --user u --add-config SCRAM-SHA-256=x", 1, "must be [iterations=NUMBER,password=TEXT]"),
        ("--alter --user u --add-config SCRAM-SHA-256=[iterations=1,password=x]", 1, "less than the minimum 4096"),
        ("--alter --user u --add-config SCRAM-SHA-256=[password=x],request_percentage=1", 1, "at once"),
        ("--alter --user-defaults --add-config SCRAM-SHA-256=[password=x]", 1, "the default user cannot have SCRAM"),
        ("--alter --topic T", 2, "--alter needs --add-config, --add-config-file or --delete-config"),
        ("--alter --topic T --add-config a", 2, 'must be in the format "key=val"'),
        ("--alter --topic T --add-config a=b=c", 2, 'must be in the format "key=val"'),
        ("--alter --topic T --add-config 'a b=c'", 2, "invalid character found for config key: 'a b'"),
        ("--alter --topic T --add-config a=b --add-config-file f", 2, "cannot go together"),
        ("--alter --topic T --add-config-file /nonexistent", 2, "cannot read /nonexistent"),
        ("--alter --entity-type topics --add-config a=b", 2, "--alter needs a name"),
        ("--alter --entity-type topics --entity-default --add-config a=b", 2, "no default entity of topics"),
        ("--alter --broker x --add-config a=b", 2, "must be a broker's id"),
        ("--describe --topic T --add-config a=b", 2, "--add-config cannot go with --describe"),
        ("--describe --alter --topic T", 2, "exactly one action is wanted"),
        ("--describe", 2, "--entity-type is missing"),
        ("--describe --entity-type table", 2, "'table' is not one of"),
        ("--describe --entity-type topics --topic T", 2, "cannot go with a short form"),
        ("--describe --topic T --broker 0", 2, "only users and clients may be named together"),
        ("--describe --entity-type topics --entity-name a --entity-name b", 2, "more names than entity types"),
        ("--describe --entity-type users --entity-type users", 2, "--entity-type users is given twice"),
    ],
)
def test_bad_input_gets_one_line_and_changes_nothing(configs, topic, words: str, status: int, told: str) -> None:
    before = configs.works("--describe --entity-type topics --all")
    said = configs(words.replace(" T", f" {topic}"))
    assert (said.status, said.out) == (status, [])
    assert len(said.err) == 1
    assert told in said.err[0]
    assert configs.works("--describe --entity-type topics --all") == before
