"""Options as Kafka's tools take them.

Any unambiguous beginning of a long option stands for it (`--under-replicated`, A3 A5), one dash does for two
(`-bootstrap-server`, B CLI-14), and a value follows a blank or `=`. What stands behind a bare `--` is left alone.

A tool's actions (`--create`, `--list`, …) are flags of which one is given; `chosen` finds it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import click

from ottla import __version__
from ottla.config.errors import nearest


class Number(click.types.IntParamType):
    """A whole number of so many bits, as the protocol and librdkafka hold it."""

    def __init__(self, bits: int, least: int | None) -> None:
        self._bits = bits
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number: int = super().convert(value, param, ctx)
        if not -(2 ** (self._bits - 1)) <= number < 2 ** (self._bits - 1):
            self.fail(f"{number} does not fit {self._bits} bits.", param, ctx)
        if self._least is not None and number < self._least:
            self.fail(f"{number} is not in the range x>={self._least}.", param, ctx)
        return number


def int32(least: int | None = None) -> Number:
    return Number(32, least)


def int64(least: int | None = None) -> Number:
    return Number(64, least)


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(__version__)
        context.exit()


class Tool(click.Command):
    """A command with the option rules of Kafka's tools, and with `--version`."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.params.append(
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_version,
                help="Show the version and exit.",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # a shell that asks for completions is not told of errors
            args = spelled_out(args, self.get_params(ctx), ctx)
            _refuse_other_than_utf8(args, ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from ottla.cli.common.reach import told_simply

        try:
            with told_simply():
                result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        return result


def spelled_out(args: Iterable[str], params: Iterable[click.Parameter], ctx: click.Context) -> list[str]:
    """The arguments with each option's full name."""
    takers: dict[str, click.Option] = {
        name: param
        for param in params
        if isinstance(param, click.Option)
        for name in (*param.opts, *param.secondary_opts)
    }
    done: list[str] = []
    rest = iter(args)
    for word in rest:
        if word == "--":
            return [*done, word, *rest]
        if len(word) < 2 or word[0] != "-" or _is_number(word):
            done.append(word)
            continue
        name, equals, value = word.partition("=")
        full = name if name in takers else _full_name(name, takers, ctx)
        done.append(full + equals + value)
        option = takers[full]
        if not equals and not option.is_flag and not option.count and option._flag_needs_value is False:
            done += _values(rest, option.nargs)
    return done


def _refuse_other_than_utf8(args: Iterable[str], ctx: click.Context) -> None:
    """Names and settings are UTF-8 on the wire; librdkafka's binding crashes on words that are not."""
    for word in args:
        if not word.isascii():
            try:
                word.encode()
            except UnicodeEncodeError:
                raise click.UsageError(f"{word!r} is not UTF-8", ctx) from None


def _values(rest: Any, count: int) -> list[str]:
    """The next words belong to an option, whatever they look like."""
    return [word for _ in range(count) for word in [next(rest, None)] if word is not None]


def _is_number(word: str) -> bool:
    return word[1:].replace(".", "", 1).isdigit()


def _full_name(name: str, takers: Mapping[str, click.Option], ctx: click.Context) -> str:
    beginning = "--" + name.lstrip("-")
    if beginning in takers:
        return beginning
    found = sorted(full for full in takers if full.startswith(beginning)) if len(beginning) > 2 else []
    distinct = {id(takers[full]) for full in found}
    if len(distinct) == 1:
        return found[0]
    if found:
        raise click.UsageError(f"{name} could be {', '.join(found)}", ctx)
    like = nearest(beginning, list(takers))
    raise click.UsageError(f"no option {name}" + (f"; did you mean {like}?" if like else ""), ctx)


def is_given(value: Any) -> bool:
    """Whether an option was given, by its value: 0 and an empty text are, what nobody asked for is not."""
    return value is not None and value is not False and value != ()


def chosen(ctx: click.Context, actions: Mapping[str, Any], default: str | None = None) -> str:
    """The one action among flags by option name (`{"--list": list_, …}`); `default` where none is given."""
    given = [name for name, value in actions.items() if is_given(value)]
    if len(given) == 1:
        return given[0]
    if not given and default is not None:
        return default
    names = list(actions)
    raise click.UsageError(f"exactly one action is wanted: {', '.join(names[:-1])} or {names[-1]}", ctx)


def given_only_with(ctx: click.Context, action: str, options: Mapping[str, Any], *actions: str) -> None:
    """Refuses options (value by name) with another action than theirs."""
    for name, value in options.items():
        if is_given(value) and action not in actions:
            raise click.UsageError(f"{name} cannot go with {action}; it is for {' and '.join(actions)}", ctx)


def key_values(pairs: Iterable[str], option: str, *, exact: bool = False) -> dict[str, str]:
    """`KEY=VALUE` words of a repeated option; a later one wins. `exact` keeps the blanks around a value."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{option} {pair!r} must be KEY=VALUE")
        found[key.strip()] = value if exact else value.strip()
    return found
