"""Values that no tool can use: each is refused in one line, and nothing is sent to a broker."""

import click
import pytest

from ottla.cli import main
from ottla.cli.common.options import Number, Tool

HUGE = "99999999999999999999"


def _options(name: str) -> list[click.Option]:
    command = main.ottla.get_command(click.Context(main.ottla), name)
    assert command is not None
    return [one for one in command.params if isinstance(one, click.Option)] if isinstance(command, Tool) else []


@pytest.mark.parametrize("name", main.COMMANDS)
def test_no_tool_takes_a_number_that_the_protocol_cannot_hold(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = [one for one in _options(name) if isinstance(one.type, (click.types.IntParamType, click.IntRange))]
    assert [one.name for one in numbers if not isinstance(one.type, Number)] == []
    for option in numbers:
        assert main.run([name, option.opts[0], HUGE]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert f"{HUGE} does not fit" in said.err
        assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    "name", [name for name in main.COMMANDS if any("--topic" in one.opts for one in _options(name))]
)
def test_no_tool_takes_a_topic_that_is_not_utf8(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([name, "--topic", "caf\udce9"]) == 2
    assert capsys.readouterr().err.startswith("ottla: 'caf\\udce9' is not UTF-8")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("topics --bootstrap-server=", "the address of the brokers is empty"),
        ("topics --zookeeper=", "the address of the brokers is empty"),
        ("console-consumer --topic t --broker-list=", "the address of the brokers is empty"),
        ("console-producer --topic t --bootstrap-server= --broker-list h:1", "the address of the brokers is empty"),
        ("replica-verification --broker-list=", "the address of the brokers is empty"),
        ("topics --bootstrap-server h:99999999999999999999", "'h:99999999999999999999' is no address of a broker"),
        ("topics --bootstrap-server h:²", "'h:²' is no address of a broker"),
        ("topics --bootstrap-server ż..w:1", "no broker answers at ż..w:1"),
        ("log-dirs --bootstrap-server ż..w:1", "no broker answers at ż..w:1"),
        ("get-offsets --time 9223372036854775808", "Malformed time argument 9223372036854775808"),
        ("topics --create --topic t --replica-assignment 99999999999", "must be like 0:1,1:2, ids of brokers"),
        ("consumer-perf-test --topic t --num-records 1 --command-config=", "cannot read"),
        ("features upgrade --feature transaction.version=²", "transaction.version=²"),
    ],
)
def test_what_names_nothing_is_told(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(words.split()) in (1, 2)
    said = capsys.readouterr().err
    assert told in said
    assert len(said.splitlines()) == 1
