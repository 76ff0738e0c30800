import os
import re
import signal
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ottla.cli import main
from ottla.cli.common.invocation import Failure
from ottla.cli.replica_verification import Partition, Verification
from ottla.protocol.batch import assign
from ottla.protocol.messages import FetchRequest, FetchResponse, MetadataResponse
from ottla.protocol.records import Record, build_batch
from support.consoles import Consoles, consoles, fresh

__all__ = ["consoles"]

WHEN = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: "


def test_replicas_are_compared_until_it_is_interrupted(consoles: Consoles) -> None:
    topic = fresh("compared")
    consoles.produce(topic, b"a\nb\nc\n")
    words = ["--topic-white-list", f"'{topic[:-1]}.*'", "--time", "-2", "--max-wait-ms", "10"]
    with subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", "replica-verification", "--broker-list", consoles.bootstrap, *words,
         "--report-interval-ms", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert re.fullmatch(WHEN + r"verification process is started\.\n", process.stdout.readline())
        last = WHEN + re.escape(f"max lag is 0 for partition [{topic},0] at offset 3 among 1 partitions\n")
        assert any(re.fullmatch(last, line) for line in process.stdout)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ([], 2, "Missing option '--broker-list'"),
        (["--broker-list", "BROKER", "--topics-include", "no-such-topic"], 1, "No topics found."),
        (["--broker-list", "BROKER", "--topics-include", "a("], 1, "a( is an invalid regex"),
        (["--broker-list", "BROKER", "--time", "-3"], 2, "-3 is not in the range"),
        (["--broker-list", "nowhere"], 1, "no broker answers at nowhere:9092"),
    ],
)
def test_bad_input_gets_one_line(
    ottla_shared_broker: Any, words: list[str], status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    here = [ottla_shared_broker.bootstrap if word == "BROKER" else word for word in words]
    assert main.run_by_kafka_name("kafka-replica-validation.sh", here) == status
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1


class Replicas:
    """Brokers that hold certain batches; they answer as connections and as the cluster that leads to them."""

    def __init__(self, logs: dict[int, list[bytes]]) -> None:
        self.logs = logs
        self.high_watermarks = dict.fromkeys(logs, 100)
        self.topic_id = uuid.uuid4().bytes

    def broker(self, node_id: int) -> "Replica":
        return Replica(self, node_id)

    def forget(self, node_id: int) -> None:
        pass

    def metadata(self) -> list[MetadataResponse.Topic]:
        partition = MetadataResponse.Partition(partition_index=0, leader_id=1, replica_nodes=list(self.logs))
        return [MetadataResponse.Topic(name="t", topic_id=self.topic_id, partitions=[partition])]


class Replica:
    def __init__(self, replicas: Replicas, node_id: int) -> None:
        self._replicas = replicas
        self._node_id = node_id

    def call(self, request: FetchRequest) -> FetchResponse:
        assert request.replica_state.replica_id == request.replica_id == -2
        log = self._replicas.logs[self._node_id]
        if not log:
            raise Failure("gone")
        partition = FetchResponse.Partition(
            partition_index=0,
            high_watermark=self._replicas.high_watermarks[self._node_id],
            records=memoryview(b"".join(log)),
        )
        return FetchResponse(responses=[FetchResponse.Topic(topic_id=self._replicas.topic_id, partitions=[partition])])


def batch(offset: int, value: bytes, count: int = 1) -> bytes:
    made = bytearray(build_batch([Record(at, 5, None, value) for at in range(count)]))
    assign(made, 0, offset, 0)
    return bytes(made)


def verified(replicas: Replicas) -> Verification:
    verification = Verification(replicas.metadata(), 1000, 0)
    verification.offsets[Partition("t", 0)] = 0
    with ThreadPoolExecutor(2) as pool:
        verification.round(replicas, pool)  # type: ignore[arg-type]
    return verification


def test_equal_replicas_are_passed_as_far_as_all_have_them(capsys: pytest.CaptureFixture[str]) -> None:
    log = [batch(0, b"a", 5), batch(5, b"b"), batch(6, b"c")]
    found = verified(Replicas({1: log, 2: log[:2]}))
    assert (found.offsets[Partition("t", 0)], found.differences) == (6, 0)
    replicas = Replicas({1: log, 2: log})
    replicas.high_watermarks = {1: 6, 2: 5}
    found = verified(replicas)
    assert found.offsets[Partition("t", 0)] == 5
    found.report()
    assert "max lag is 1 for partition [t,0] at offset 5 among 1 partitions" in capsys.readouterr().out


def test_a_batch_of_other_content_is_told_and_passed(capsys: pytest.CaptureFixture[str]) -> None:
    found = verified(Replicas({1: [batch(0, b"a"), batch(1, b"b")], 2: [batch(0, b"x"), batch(1, b"b")]}))
    assert (found.offsets[Partition("t", 0)], found.differences) == (2, 1)
    expected = WHEN + r"partition \[t,0\] has unmatched checksum at offset 0; "
    expected += r"replica 1's checksum \d+; replica 2's checksum \d+\n"
    assert re.fullmatch(expected, capsys.readouterr().out)


def test_other_offsets_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = verified(Replicas({1: [batch(0, b"a")], 2: [batch(0, b"a", 2)]}))
    assert found.differences == 1
    assert "partition [t,0]: replica 1's offset 0 doesn't match replica 2's offset 1" in capsys.readouterr().out


def test_a_broker_that_is_gone_holds_up_its_partitions_and_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    replicas = Replicas({1: [batch(0, b"a")], 2: []})
    verification = Verification(replicas.metadata(), 1000, 0)
    verification.offsets[Partition("t", 0)] = 0
    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            assert not verification.round(replicas, pool)  # type: ignore[arg-type]
        assert verification.offsets[Partition("t", 0)] == 0
        replicas.logs[2] = replicas.logs[1]
        assert verification.round(replicas, pool)  # type: ignore[arg-type]
    assert verification.offsets[Partition("t", 0)] == 1
    assert re.fullmatch(WHEN + "broker 2: gone\n", capsys.readouterr().err)
