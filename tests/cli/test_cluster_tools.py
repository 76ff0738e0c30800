"""cluster, features and broker-api-versions."""

import re

import pytest

from support.tools import Tool


@pytest.fixture
def cluster(ottla_shared_broker) -> Tool:
    return Tool("kafka-cluster.sh", ottla_shared_broker.bootstrap)


@pytest.fixture
def features(ottla_shared_broker) -> Tool:
    return Tool("kafka-features.sh", ottla_shared_broker.bootstrap)


def test_the_cluster_shows_its_id_and_its_brokers(cluster, ottla_shared_broker) -> None:
    (line,) = cluster.works("cluster-id")
    assert cluster.works("") == [line]
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", line)
    port = ottla_shared_broker.port
    assert cluster.works("list-endpoints") == [
        "ID         HOST      PORT       RACK       STATE      ENDPOINT_TYPE  ",
        f"0          127.0.0.1 {port:<10} null       unfenced   broker         ",
    ]
    rows = Tool("ottla cluster", ottla_shared_broker.bootstrap)("list-endpoints --include-fenced --output json").json
    assert rows[0] == {
        "id": 0,
        "host": "127.0.0.1",
        "port": port,
        "rack": None,
        "state": "unfenced",
        "endpoint_type": "broker",
    }


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("unregister --id 3", 1, "does not support the broker unregistration API"),
        ("unregister", 2, "unregister needs --id"),
        ("cluster-id --id 3", 2, "--id cannot go with cluster-id"),
        ("explode", 2, "'explode' is not one of"),
        ("unregister --id 3 --output json", 2, "--output cannot go with unregister"),
    ],
)
def test_what_a_cluster_cannot_do_is_told_in_one_line(cluster, words: str, status: int, told: str) -> None:
    said = cluster(words)
    assert (said.status, said.out, len(said.err)) == (status, [], 1)
    assert told in said.err[0]


def test_features_are_described_and_changed(ottla_broker) -> None:
    features = Tool("kafka-features", ottla_broker.bootstrap)
    assert features.works("") == features.works("describe")
    for line in features.works("describe"):
        assert re.fullmatch(
            r"Feature: \S+ +SupportedMinVersion: 0 +SupportedMaxVersion: \d+ +FinalizedVersionLevel: \d+ +Epoch: \d+",
            line,
        )
    for row in Tool("ottla features", ottla_broker.bootstrap)("describe --output json").json:
        name, highest = row["feature"], row["supported_max"]
        assert features.works(f"disable --feature {name} --dry-run") == [f"{name} can be disabled."]
        assert features.works(f"downgrade --feature {name}=0") == [f"{name} was downgraded to 0."]
        assert features.works(f"upgrade --feature {name}={highest}") == [f"{name} was upgraded to {highest}."]
        assert features.works(f"feature-dependencies --feature {name}=1") == [f"{name}=1 has no dependencies."]
        assert f"{name}=" in "\n".join(features.works("version-mapping"))


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("upgrade --feature no.such=1", 1, "1 out of 1 operation(s) failed."),
        ("disable --feature no.such", 1, "1 out of 1 operation(s) failed."),
        ("upgrade --metadata 3.9-IV0", 1, "ottla has no metadata.version"),
        ("version-mapping --release-version 4.0", 1, "ottla has no metadata.version"),
        ("feature-dependencies --feature no.such=1", 1, "Unknown feature: no.such"),
        ("upgrade", 2, "You must specify at least one feature to upgrade"),
        ("upgrade --feature a", 2, "equals sign not found"),
        ("upgrade --feature a=b", 2, "unable to parse b as a short"),
        ("upgrade --feature a=99999", 2, "unable to parse 99999 as a short"),
        ("upgrade --feature a=1 --feature a=2", 2, "Feature a was specified more than once."),
        ("upgrade --feature a=1 --unsafe", 2, "--unsafe cannot go with upgrade"),
        ("describe --feature a=1", 2, "--feature cannot go with describe"),
        ("upgrade --feature a=1 --output json", 2, "--output cannot go with upgrade"),
    ],
)
def test_a_change_of_features_that_cannot_be_is_told(features, words: str, status: int, told: str) -> None:
    before = features.works("describe")
    said = features(words)
    assert (said.status, len(said.err)) == (status, 1)
    assert told in said.err[0]
    assert features.works("describe") == before
