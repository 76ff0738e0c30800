import json
import socket

import pytest

from ottla.cli import main
from ottla.cli.common import reach
from ottla.cli.common.client_properties import for_librdkafka
from ottla.cli.common.invocation import Failure, Misconfigured
from ottla.cli.common.requests import Cluster, Connection, parse_servers
from ottla.protocol.messages import DescribeClusterRequest


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_addresses_are_read_with_and_without_a_path() -> None:
    assert parse_servers("a:1, b:2/kafka-cluster,c,[::1]:4") == [("a", 1), ("b", 2), ("c", 9092), ("::1", 4)]
    for bad in ("", "a:b", ":1", "a:0", "a:70000", "a:1,,b:2"):
        with pytest.raises(Failure, match="is no address of a broker"):
            parse_servers(bad)


def test_the_first_server_that_answers_is_used(ottla_shared_broker, closed_port) -> None:
    with Cluster(f"127.0.0.1:{closed_port},{ottla_shared_broker.bootstrap}") as cluster:
        reply = cluster.controller().call(DescribeClusterRequest())
        assert reply.controller_id == cluster.metadata.controller_id
        with pytest.raises(Failure, match="there is no broker 77"):
            cluster.broker(77)


def test_where_nobody_answers_one_line_says_so(closed_port, capsys) -> None:
    at = f"127.0.0.1:{closed_port}"
    assert main.run(["broker-api-versions", "--bootstrap-server", at]) == 1
    assert capsys.readouterr().err == f"ottla: no broker answers at {at}: Connection refused\n"
    assert main.run(["broker-api-versions", "--zookeeper", at]) == 1
    assert f"no ZooKeeper answers at {at}; use --bootstrap-server" in capsys.readouterr().err


def test_what_does_not_speak_kafka_is_told_apart(capsys) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        import threading

        def hang_up() -> None:
            server.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        with pytest.raises(Failure, match=r"closed the connection|reset by peer"):
            Connection("127.0.0.1", server.getsockname()[1])


def test_the_servers_come_from_the_option_the_file_the_environment_or_the_default(monkeypatch) -> None:
    assert reach.find("a:1", None, {"bootstrap.servers": "b:2"}).servers == "a:1"
    assert reach.find(None, None, {"bootstrap.servers": "b:2"}).servers == "b:2"
    assert reach.find(None).servers == "localhost:9092"
    monkeypatch.setenv(reach.ENVIRONMENT, "c:3")
    assert reach.find(None).servers == "c:3"


def test_a_registration_in_zookeeper_gives_an_address() -> None:
    assert reach._address(json.dumps({"host": "a", "port": 1}).encode()) == "a:1"
    modern = {"host": None, "port": -1, "endpoints": ["SSL://a:2", "PLAINTEXT://a:3"]}
    assert reach._address(json.dumps(modern).encode()) == "a:3"
    for broken in (b"", b"[]", b"{", b'{"endpoints": []}'):
        assert reach._address(broken) is None


def test_a_secured_cluster_is_not_spoken_to_in_the_clear() -> None:
    with pytest.raises(Failure, match=r"speaks PLAINTEXT, and security\.protocol is SSL"):
        reach.Reach("a:1", {"security.protocol": "SSL"}).cluster()


def test_settings_of_java_are_told_librdkafka_in_its_words() -> None:
    java = {
        "acks": "all",
        "fetch.max.wait.ms": "5",
        "auto.offset.reset": "none",
        "buffer.memory": "33554432",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    }
    assert for_librdkafka(java) == {
        "acks": "all",
        "fetch.wait.max.ms": "5",
        "auto.offset.reset": "error",
        "queue.buffering.max.kbytes": "32768",
        "partition.assignment.strategy": "cooperative-sticky",
    }
    for key, value in {"interceptor.classes": "x", "key.serializer": "x", "buffer.memory": "x"}.items():
        with pytest.raises(Misconfigured, match=key):
            for_librdkafka({key: value})


def test_the_api_versions_of_a_broker_are_listed_as_kafka_lists_them(ottla_shared_broker, capsys) -> None:
    servers = ottla_shared_broker.bootstrap
    assert main.run_by_kafka_name("kafka-broker-api-versions.sh", ["--bootstrap-server", servers]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("(id: 0 rack: null isFenced: false) -> (")
    assert lines[1] == "\tProduce(0): 0 to 13 [usable: 13],"
    assert not lines[-2].endswith(",")
    assert lines[-1] == ")"
    assert main.run(["broker-api-versions", "--bootstrap-server", servers, "--output", "json"]) == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert (first["api"], first["key"], first["max_version"]) == ("Produce", 0, 13)
