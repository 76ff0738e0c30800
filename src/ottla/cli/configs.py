"""`ottla configs`: show and change settings of topics, brokers, groups, clients and users, as kafka-configs does.

An entity is named by --entity-type and --entity-name (or --entity-default), or by a short form (--topic, --broker, …);
a user and a client may be named together. --add-config takes `k1=v1,k2=[v2,v3]`: brackets keep commas together. What
is printed is Kafka 4's text; with --zookeeper, which Kafka 4 no longer takes, that of Kafka 2 (docs/choices.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ottla.cli.common import client_quotas, resource_configs
from ottla.cli.common.invocation import Failure
from ottla.cli.common.options import Tool, chosen, given_only_with, spelled_out
from ottla.cli.common.output import JSON, TEXT, output_asked, output_option, show
from ottla.cli.common.reach import Reach, properties_of, reaches
from ottla.cli.common.requests import Cluster, error_text
from ottla.cli.common.resource_configs import Resource, Source, source_name
from ottla.protocol.messages import DescribeConfigsResponse, ListConfigResourcesRequest

Config = DescribeConfigsResponse.Config

# type: its resource, and the source of its own settings (None: all that it has)
RESOURCES: dict[str, tuple[Resource, Source | None]] = {
    "topics": (Resource.TOPIC, Source.DYNAMIC_TOPIC_CONFIG),
    "brokers": (Resource.BROKER, Source.DYNAMIC_BROKER_CONFIG),
    "broker-loggers": (Resource.BROKER_LOGGER, None),
    "client-metrics": (Resource.CLIENT_METRICS, Source.DYNAMIC_CLIENT_METRICS_CONFIG),
    "groups": (Resource.GROUP, Source.DYNAMIC_GROUP_CONFIG),
}
TYPES = (*RESOURCES, *client_quotas.KINDS)
WITH_DEFAULT = ("brokers", "clients", "ips", "users")
SHORT = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker_logger": "broker-loggers",
    "ip": "ips",
    "client_metrics": "client-metrics",
    "group": "groups",
}


class Configs(Tool):
    """--entity-default stands in the order of the names: it is the empty name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = spelled_out(args, self.get_params(ctx), ctx)
        return super().parse_args(ctx, [one for word in words for one in _named(word)])


def _named(word: str) -> list[str]:
    return ["--entity-name", ""] if word == "--entity-default" else [word]


def _short_forms(function: Any) -> Any:
    for kind in reversed(WITH_DEFAULT):
        option = f"--{kind[:-1]}-defaults"
        function = click.option(option, is_flag=True, help=f"The defaults of all {kind}.")(function)
    for name, kind in reversed(SHORT.items()):
        option = f"--{name.replace('_', '-')}"
        function = click.option(option, name, metavar="NAME", help=f"The same as --entity-type {kind} with this name.")(
            function
        )
    return function


@click.command("configs", cls=Configs, short_help="Show and change settings of topics, brokers, groups and clients.")
@click.option("--describe", is_flag=True, help="Show settings; the default.")
@click.option("--alter", is_flag=True, help="Change settings.")
@click.option("--all", "every", is_flag=True, help="Describe: defaults, too.")
@click.option("--entity-type", "types", multiple=True, type=click.Choice(TYPES), help="What kind of thing.")
@click.option("--entity-name", "names", multiple=True, help="Its name or id.")
@click.option("--entity-default", is_flag=True, help="The default of its kind, in place of a name.")
@_short_forms
@click.option("--add-config", metavar="K=V,...", help="Settings to set; k=[a,b] keeps commas together.")
@click.option("--add-config-file", metavar="FILE", help="A property file with settings to set.")
@click.option("--delete-config", multiple=True, metavar="K,...", help="Settings to remove.")
@click.option("--yes", "--force", "force", is_flag=True, hidden=True, expose_value=False)  # nothing is ever asked
@reaches
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    describe: bool,
    alter: bool,
    every: bool,
    types: tuple[str, ...],
    names: tuple[str, ...],
    entity_default: bool,
    add_config: str | None,
    add_config_file: str | None,
    delete_config: tuple[str, ...],
    reach: Reach,
    output: str,
    **short: Any,
) -> None:
    """Show and change settings of topics, brokers, groups, clients and users."""
    action = chosen(ctx, {"--describe": describe, "--alter": alter}, "--describe")
    given_only_with(ctx, action, {"--all": every, **output_asked(ctx)}, "--describe")
    changes = {"--add-config": add_config, "--add-config-file": add_config_file, "--delete-config": delete_config}
    given_only_with(ctx, action, changes, "--alter")
    kinds, entities = _entity(list(types), list(names), short)
    if alter and len(entities) != len(kinds):
        raise click.UsageError("--alter needs a name (--entity-name) for every --entity-type", ctx)
    for kind, name in zip(kinds, entities):
        if not name and kind not in WITH_DEFAULT:
            raise click.UsageError(f"there is no default entity of {kind}", ctx)
        if kind in ("brokers", "broker-loggers") and name and not name.isdigit():
            raise click.UsageError(f"the name of {kind} must be a broker's id, and {name!r} is none", ctx)
    if not alter:
        _describe(reach, kinds, entities, every, output)
        return
    if add_config is not None and add_config_file is not None:
        raise click.UsageError("--add-config and --add-config-file cannot go together", ctx)
    if not any(changes.values()):
        raise click.UsageError("--alter needs --add-config, --add-config-file or --delete-config", ctx)
    add = properties_of(add_config_file) if add_config is None else parsed_configs(add_config)
    remove = [key.strip() for keys in delete_config for key in keys.split(",")]
    for key in (*add, *remove):
        if not re.fullmatch(r"[a-zA-Z0-9._-]+", key):
            raise click.UsageError(f"invalid character found for config key: {key!r}", ctx)
    if kinds[0] in RESOURCES:
        _alter_resource(reach, kinds[0], entities[0], add, remove)
    else:
        _alter_client(reach, kinds, entities, add, remove)
    if reach.through_zookeeper:
        click.echo(f"Completed updating config for entity: {_old_title(kinds, entities)}.")
    elif entities[0]:
        click.echo(f"Completed updating config for {kinds[0][:-1]} {entities[0]}.")
    else:
        click.echo(f"Completed updating default config for {kinds[0]} in the cluster.")


def _entity(types: list[str], names: list[str], short: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The kinds and names that are given; users stand before clients."""
    chosen_short = [(SHORT[key], value) for key, value in short.items() if key in SHORT and value is not None]
    chosen_short += [
        (key.removesuffix("_defaults") + "s", "") for key, value in short.items() if key.endswith("_defaults") and value
    ]
    if chosen_short and (types or names):
        raise click.UsageError("--entity-type, --entity-name and --entity-default cannot go with a short form of them")
    for kind, name in chosen_short:
        types.append(kind)
        names.append(name)
    if not types:
        raise click.UsageError("--entity-type is missing, or a short form of it such as --topic")
    if len(set(types)) < len(types):
        raise click.UsageError(f"--entity-type {max(types, key=types.count)} is given twice")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise click.UsageError("only users and clients may be named together")
    if len(names) > len(types):
        raise click.UsageError("there are more names than entity types")
    if types == ["clients", "users"] and len(names) == 2:
        return types[::-1], names[::-1]
    return types, names


_OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"


def parsed_configs(text: str) -> dict[str, str]:
    """`k1=v1,k2=[v2,v3]` as keys and values."""
    found = {}
    for pair in re.split("," + _OUTSIDE_BRACKETS, text):
        parts = re.split(r"\s*=\s*" + _OUTSIDE_BRACKETS, pair)
        if len(parts) != 2:
            raise click.UsageError('Invalid entity config: all configs to be added must be in the format "key=val".')
        found[parts[0].strip()] = re.sub(r"[\[\]]", "", parts[1]).strip()
    return found


# -- describing ------------------------------------------------------------------------------------------------------


def _describe(reach: Reach, kinds: list[str], names: list[str], every: bool, output: str) -> None:
    if kinds[0] not in RESOURCES:
        _describe_clients(reach, kinds, names, output)
        return
    (kind,) = kinds
    rows: list[tuple[object, ...]] = []
    lines: list[str] = []
    with reach.cluster() as cluster:
        for name in names or _all_names(cluster, kind):
            configs = _own(cluster, kind, name, every)
            if reach.through_zookeeper:
                own = ",".join(f"{one.name}={_value(one.value)}" for one in configs)
                lines.append(f"Configs for {_old_title([kind], [name])} are {own}")
            else:
                lines += _lines(kind, name, configs, every)
            for one in configs:
                row = (kind, name or None, one.name, one.value, source_name(one.config_source), one.is_sensitive)
                rows.append((*row, one.read_only, _synonyms(one)) if output == JSON else row)
    columns = ("type", "name", "key", "value", "source", "sensitive")
    show(output, (*columns, "read_only", "synonyms") if output == JSON else columns, rows, lines)


def _all_names(cluster: Cluster, kind: str) -> list[str]:
    if kind == "topics":
        return sorted(topic.name or "" for topic in cluster.topics())
    brokers = [str(one.node_id) for one in cluster.metadata.brokers]
    if kind in ("brokers", "broker-loggers"):
        return [*brokers, ""] if kind == "brokers" else brokers
    reply = cluster.seed.call(ListConfigResourcesRequest(resource_types=[RESOURCES[kind][0]]))
    if reply.error_code:
        raise Failure(error_text(reply.error_code))
    return sorted(one.resource_name for one in reply.config_resources)


def _own(cluster: Cluster, kind: str, name: str, every: bool = False) -> list[Config]:
    """The settings that are the entity's own, or all that hold for it."""
    resource, source = RESOURCES[kind]
    if kind == "brokers" and not name:
        source = Source.DYNAMIC_DEFAULT_BROKER_CONFIG
    configs = resource_configs.describe(cluster, resource, [name], synonyms=True).get(name, [])
    return [one for one in configs if every or source is None or one.config_source == source]


def _lines(kind: str, name: str, configs: list[Config], every: bool) -> list[str]:
    """As Kafka 4 prints them."""
    if name:
        lines = [f"{'All' if every else 'Dynamic'} configs for {kind[:-1]} {name} are:"]
    else:
        lines = [f"Default configs for {kind} in the cluster are:"]
    for one in configs:
        sensitive = str(one.is_sensitive).lower()
        lines.append(f"  {one.name}={_value(one.value)} sensitive={sensitive} synonyms={{{', '.join(_synonyms(one))}}}")
    return lines


def _synonyms(config: Config) -> list[str]:
    return [f"{source_name(one.source)}:{one.name}={_value(one.value)}" for one in config.synonyms]


def _value(value: str | None) -> str:
    return "null" if value is None else value


def _old_title(kinds: Sequence[str], names: Sequence[str]) -> str:
    """`topic 'my-topic'`, as in ZooKeeper's time."""
    titles = {"users": "user-principal", "clients": "client-id", "topics": "topic"}
    return ", ".join(
        f"{titles.get(kind, kind)} '{name}'" if name else f"default {titles.get(kind, kind)}"
        for kind, name in zip(kinds, names)
    )


def _describe_clients(reach: Reach, kinds: list[str], names: list[str], output: str) -> None:
    with reach.cluster() as cluster:
        entries = client_quotas.describe(cluster, kinds, names)
    rows: list[tuple[object, ...]] = []
    lines = []
    for entry in entries:
        values = client_quotas.values_of(entry)
        lines.append(
            f"Quota configs for {client_quotas.title(entry)} are {', '.join(f'{k}={v}' for k, v in values.items())}"
        )
        rows += [(client_quotas.title(entry), key, value) for key, value in values.items()]
    if kinds == ["users"] and "" not in names and (output != TEXT or not reach.through_zookeeper):
        for user, text in client_quotas.describe_credentials(reach, names):
            lines.append(f"SCRAM credential configs for user-principal '{user}' are {text}")
            rows.append((f"user-principal '{user}'", *text.split("=", 1)))
    show(output, ("entity", "key", "value"), rows, lines)


# -- changing --------------------------------------------------------------------------------------------------------


def _alter_resource(reach: Reach, kind: str, name: str, add: dict[str, str], remove: list[str]) -> None:
    with reach.cluster() as cluster:
        if kind == "broker-loggers":
            known = {one.name for one in _own(cluster, kind, name)}
            unknown = [key for key in (*remove, *add) if key not in known]
            if unknown:
                raise Failure(f"Invalid broker logger(s): {','.join(unknown)}")
        changes: dict[str, str | None] = {**add, **dict.fromkeys(remove)}
        resource_configs.alter(cluster, RESOURCES[kind][0], {name: changes})


def _alter_client(reach: Reach, kinds: list[str], names: list[str], add: dict[str, str], remove: list[str]) -> None:
    add = {client_quotas.TEXTS_NAMES.get(key, key): value for key, value in add.items()}
    remove = [client_quotas.TEXTS_NAMES.get(key, key) for key in remove]
    quotas = client_quotas.IP_QUOTAS if kinds == ["ips"] else client_quotas.QUOTAS
    credentials = [key for key in (*add, *remove) if key in client_quotas.MECHANISMS and kinds == ["users"]]
    unknown = [key for key in (*add, *remove) if key not in quotas and key not in credentials]
    if unknown:
        known = [*quotas, *(client_quotas.MECHANISMS if kinds == ["users"] else ())]
        raise Failure(f"{', '.join(unknown)} cannot be set for {' and '.join(kinds)}: {', '.join(known)} can")
    if not credentials:
        with reach.cluster() as cluster:
            client_quotas.alter(cluster, kinds, names, add, remove)
        return
    if len(credentials) < len(add) + len(remove):
        raise Failure("quotas and SCRAM credentials cannot be changed at once")
    if not names[0]:
        raise Failure("the default user cannot have SCRAM credentials")
    client_quotas.alter_credentials(reach, names[0], add, remove)
