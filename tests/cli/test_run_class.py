import pytest

from ottla import __version__
from ottla.cli import main
from ottla.cli.common.kafka_names import CLASSES, REPLACED, SCRIPTS


def test_a_class_runs_the_command_behind_it(ottla_shared_broker, capsys) -> None:
    words = ["kafka.admin.BrokerApiVersionsCommand", "-bootstrap-server", ottla_shared_broker.bootstrap]
    assert main.run_by_kafka_name("kafka-run-class.sh", words) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("rack: null isFenced: false) -> (")


def test_what_follows_the_class_belongs_to_its_command(capsys) -> None:
    assert main.run(["run-class", "kafka.tools.ProducerPerformance", "--version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"
    assert main.run(["run-class", "kafka.tools.ProducerPerformance", "--help"]) == 0
    assert "--record-size" in capsys.readouterr().out
    assert main.run(["run-class", "--help"]) == 0
    assert "CLASS" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["kafka.tools.DumpLogSegmens"], 1, "no class kafka.tools.DumpLogSegmens; did you mean kafka.tools.DumpLogS"),
        (["DumpLogSegments"], 1, "did you mean org.apache.kafka.tools.DumpLogSegments?"),
        (["com.example.Frobnicator"], 1, "no class com.example.Frobnicator; there are "),
        (["kafka.tools.JmxTool"], 1, "kafka.tools.JmxTool is not there: there is no JMX; the broker gives its metrics"),
        (["kafka.tools.SimpleConsumerShell", "--topic", "x"], 1, "use console-consumer --topic"),
        (["-daemon", "kafka.tools.ProducerPerformance"], 2, "-daemon goes with kafka.Kafka"),
        (["kafka.tools.ProducerPerformance", "--num-recods", "1"], 2, "did you mean --num-records?"),
        (["kafka.Kafka", "/nonexistent/server.properties"], 2, "cannot read /nonexistent/server.properties"),
        (["-daemon", "kafka.Kafka", "/nonexistent/server.properties"], 2, "cannot read /nonexistent/server.properties"),
        ([], 2, "CLASS"),
    ],
)
def test_what_cannot_be_run_is_told_in_one_line(words: list[str], status: int, told: str, capsys) -> None:
    assert main.run(["run-class", *words]) == status
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert told in error


def test_every_script_has_a_class_and_none_is_both_there_and_replaced() -> None:
    without_class = {"run-class", "server-stop"}  # shell scripts in Kafka, too
    assert set(SCRIPTS.values()) - set(CLASSES.values()) == without_class
    assert not CLASSES.keys() & REPLACED.keys()
