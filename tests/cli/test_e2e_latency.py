import re
import uuid

import pytest

from ottla.cli import main


@pytest.fixture
def e2e(ottla_shared_broker, capsys):
    def run(*words: str) -> tuple[int, list[str], str]:
        status = main.run_by_kafka_name("kafka-e2e-latency.sh", [*words])
        said = capsys.readouterr()
        return status, said.out.splitlines(), said.err

    return run


def test_each_thousandth_record_the_average_and_percentiles_are_printed(e2e, ottla_shared_broker) -> None:
    topic = f"e2e-{uuid.uuid4()}"
    at = ["--bootstrap-server", ottla_shared_broker.bootstrap, "--topic", topic]
    status, lines, _ = e2e(*at, "--num-records", "1001", "--producer-acks", "all", "--record-size", "20")
    assert status == 0
    assert lines[0] == (
        f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
    )
    assert re.fullmatch(r"0\t\d+\.\d+", lines[1])
    assert re.fullmatch(r"1000\t\d+\.\d+", lines[2])
    assert re.fullmatch(r"Avg latency: \d+\.\d{4} ms", lines[3])
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+", lines[4])


def test_keys_and_headers_come_back_too_and_the_old_form_is_taken(e2e, ottla_shared_broker) -> None:
    topic = f"e2e-{uuid.uuid4()}"
    sizes = ["--record-key-size=3", "--num-headers=2", "--record-header-key-size=4", "--record-header-size=-1"]
    at = ["--bootstrap-server", ottla_shared_broker.bootstrap, "--topic", topic]
    assert e2e(*at, "--num-records=2", "--producer-acks=1", "--record-size=0", *sizes)[0] == 0
    status, lines, errors = e2e(ottla_shared_broker.bootstrap, topic, "3", "1", "10")
    assert status == 0
    assert errors.startswith("WARNING: Positional argument usage is deprecated")
    assert lines[0].startswith("0\t")  # the topic was there


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["SERVERS", "t", "3", "0", "10"], "'0' is not one of '1', 'all'"),
        (["SERVERS", "t", "none", "1", "10"], "'none' is not a valid integer"),
        (["SERVERS", "t", "3"], "5 or 6 words are wanted, not 3"),
        (["--topic=t", "--num-records=0", "--producer-acks=1", "--record-size=1"], "--num-records"),
        (["--topic=t", "--num-records=1", "--producer-acks=1"], "--record-size is wanted"),
        (["--topic=t", "--num-records=1", "--producer-acks=1", "--record-size=-1"], "--record-size"),
        (
            ["--topic=t", "--num-records=1", "--producer-acks=1", "--record-size=1", "--num-headers=1"],
            "header-key-size",
        ),
    ],
)
def test_what_is_asked_for_wrongly_is_refused(e2e, ottla_shared_broker, words: list[str], told: str) -> None:
    status, _, errors = e2e(*[ottla_shared_broker.bootstrap if word == "SERVERS" else word for word in words])
    assert status == 2
    assert told in errors.splitlines()[-1]


def test_a_topic_that_cannot_be_made_is_told(e2e, ottla_shared_broker) -> None:
    at = ["--bootstrap-server", ottla_shared_broker.bootstrap, "--topic", "no topic"]
    status, _, errors = e2e(*at, "--num-records=1", "--producer-acks=1", "--record-size=1")
    assert status == 1
    assert "INVALID_TOPIC_EXCEPTION" in errors
