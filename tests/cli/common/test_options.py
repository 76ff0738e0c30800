import click
import pytest

from ottla.cli.common.options import Tool, chosen, int32, int64, key_values


@click.command(cls=Tool)
@click.option("--bootstrap-server")
@click.option("--broker-list")
@click.option("--under-replicated-partitions", is_flag=True)
@click.option("--list", "list_", is_flag=True)
@click.option("--shift-by", type=int64())
@click.option("--partitions", type=int32(1))
@click.option("--property", multiple=True)
@click.option("--codec", is_flag=False, flag_value="gzip", default="none")
@click.argument("rest", nargs=-1)
def tool(**seen: object) -> dict[str, object]:
    return seen


def parsed(*words: str) -> dict[str, object]:
    return {name: value for name, value in tool.main(list(words), standalone_mode=False).items() if value}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--under-replicated"], {"under_replicated_partitions": True}),
        (["-under-replicated-partitions"], {"under_replicated_partitions": True}),
        (["-bootstrap-server", "h:1"], {"bootstrap_server": "h:1"}),
        (["--boot=h:1", "-br", "x"], {"bootstrap_server": "h:1", "broker_list": "x"}),
        (["--bootstrap-server", "--list"], {"bootstrap_server": "--list"}),
        (["--shift-by", "-2"], {"shift_by": -2}),
        (["--shift-by=-2"], {"shift_by": -2}),
        (["--shift-by", "9223372036854775807"], {"shift_by": 2**63 - 1}),
        (["--prop", "zażółć"], {"property": ("zażółć",)}),
        (["-l", "a", "--", "-x"], {"list_": True, "rest": ("a", "-x")}),
        (["--prop", "a=b=c", "--property", "k=--v"], {"property": ("a=b=c", "k=--v")}),
        (["--codec", "--list"], {"codec": "gzip", "list_": True}),
        (["--codec", "lz4"], {"codec": "lz4"}),
    ],
)
def test_options_are_read_as_kafkas_tools_read_them(words: list[str], expected: dict[str, object]) -> None:
    assert {"codec": "none", **expected} == parsed(*words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--b", "x"], "--b could be --bootstrap-server, --broker-list"),
        (["--lits"], "no option --lits; did you mean --list?"),
        (["-zz"], "no option -zz"),
        (["--bootstrap-server"], "requires an argument"),
        (["--shift-by", "9223372036854775808"], "9223372036854775808 does not fit 64 bits"),
        (["--shift-by", "-9223372036854775809"], "does not fit 64 bits"),
        (["--partitions", "2147483648"], "2147483648 does not fit 32 bits"),
        (["--partitions", "0"], "0 is not in the range x>=1"),
        (["--partitions", "9" * 5000], "is not a valid integer"),
        (["--property", "caf\udce9"], "is not UTF-8"),
        (["--", "caf\udce9"], "is not UTF-8"),
    ],
)
def test_an_option_that_cannot_be_told_is_refused(words: list[str], told: str) -> None:
    with pytest.raises(click.UsageError, match=told):
        tool.main(words, standalone_mode=False)


def test_one_action_is_chosen_or_the_default() -> None:
    context = click.Context(tool)
    assert chosen(context, {"--list": False, "--create": True}) == "--create"
    assert chosen(context, {"--list": False, "--create": None}, "--list") == "--list"
    assert chosen(context, {"--list": False, "--to-offset": 0}, "--list") == "--to-offset"
    for actions in ({"--list": True, "--create": True}, {"--list": False, "--create": False}):
        with pytest.raises(click.UsageError, match="exactly one action is wanted: --list or --create"):
            chosen(context, actions)


def test_key_values_are_taken_apart_at_the_first_equals_sign() -> None:
    assert key_values(["a=b=c", " d = e "], "--config") == {"a": "b=c", "d": "e"}
    assert key_values(["key.separator=\t", "a= "], "--property", exact=True) == {"key.separator": "\t", "a": " "}
    for bad in ("a", "=b", ""):
        with pytest.raises(click.UsageError, match=r"--config .* must be KEY=VALUE"):
            key_values([bad], "--config")
