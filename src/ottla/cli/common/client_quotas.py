"""Quotas of users, clients and addresses, and users' SCRAM credentials, as `configs` shows and changes them.

An entity is a list of parts (kind, name); the name None means the default of its kind. Quotas go by requests of our
own, credentials through confluent-kafka, which makes their salted form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from ottla.cli.common.invocation import Failure
from ottla.cli.common.reach import Reach, broker_error
from ottla.cli.common.requests import Cluster, error_text
from ottla.protocol.messages import AlterClientQuotasRequest, DescribeClientQuotasRequest, DescribeClientQuotasResponse

KINDS = {"users": "user", "clients": "client-id", "ips": "ip"}
QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_QUOTAS = ("connection_creation_rate",)
TEXTS_NAMES = {"producer_bytes_rate": "producer_byte_rate", "consumer_bytes_rate": "consumer_byte_rate"}  # A3 D3
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS = 4096
EXACT, DEFAULT, ANY = 0, 1, 2

Entry = DescribeClientQuotasResponse.Entry


def describe(cluster: Cluster, types: Sequence[str], names: Sequence[str]) -> list[Entry]:
    """Quotas of the entities that are just of these types; "" names the default, a missing name any."""
    components = []
    for index, kind in enumerate(types):
        name = names[index] if index < len(names) else None
        match = ANY if name is None else EXACT if name else DEFAULT
        components.append(
            DescribeClientQuotasRequest.Component(entity_type=KINDS[kind], match_type=match, match=name or None)
        )
    reply = cluster.seed.call(DescribeClientQuotasRequest(components=components, strict=True))
    if reply.error_code:
        raise Failure(error_text(reply.error_code, reply.error_message))
    return list(reply.entries or [])


def values_of(entry: Entry) -> dict[str, float]:
    return {value.key: value.value for value in entry.values}


def title(entry: Entry) -> str:
    """`user-principal 'alice', the default client-id`"""
    names = {part.entity_type: part.entity_name for part in entry.entity}
    parts = []
    for kind in KINDS.values():
        if kind in names:
            shown = "user-principal" if kind == "user" else kind
            parts.append(f"the default {shown}" if names[kind] is None else f"{shown} '{names[kind]}'")
    return ", ".join(parts)


def alter(
    cluster: Cluster, types: Sequence[str], names: Sequence[str], add: Mapping[str, str], remove: Iterable[str]
) -> None:
    wanted = {}
    for key, value in add.items():
        try:
            wanted[key] = float(value)
        except ValueError:
            raise Failure(f"Cannot parse quota configuration value for {key}: {value}") from None
    held = {key for entry in describe(cluster, types, names) for key in values_of(entry)}
    missing = [key for key in remove if key not in held]
    if missing:
        raise Failure(f"Invalid config(s): {','.join(missing)}")
    entity = [
        AlterClientQuotasRequest.Entity(entity_type=KINDS[kind], entity_name=name or None)
        for kind, name in zip(types, names)
    ]
    operations = [AlterClientQuotasRequest.Op(key=key, value=value, remove=False) for key, value in wanted.items()]
    operations += [AlterClientQuotasRequest.Op(key=key, value=0.0, remove=True) for key in remove]
    request = AlterClientQuotasRequest(entries=[AlterClientQuotasRequest.Entry(entity=entity, ops=operations)])
    for result in cluster.controller().call(request).entries:
        if result.error_code:
            raise Failure(error_text(result.error_code, result.error_message))


def describe_credentials(reach: Reach, users: Sequence[str]) -> list[tuple[str, str]]:
    """Each user that has credentials, and what they are; never the secrets."""
    admin = reach.admin()
    answer: Any = admin.describe_user_scram_credentials(list(users) or None)
    found = []
    for user, described in sorted((answer if users else answer.result()).items()):
        try:
            infos = (described.result() if users else described).scram_credential_infos
        except Exception as error:
            if broker_error(error) is None or error.args[0].name() != "RESOURCE_NOT_FOUND":
                raise
            continue
        text = ", ".join(f"{str(one.mechanism.name).replace('_', '-')}=iterations={one.iterations}" for one in infos)
        found.append((user, text))
    return found


def alter_credentials(reach: Reach, user: str, add: Mapping[str, str], remove: Iterable[str]) -> None:
    admin = reach.admin()
    package: Any = import_module("confluent_kafka.admin")
    changes: list[Any] = []
    for mechanism, text in add.items():
        parsed = re.fullmatch(r"(?:iterations=(-?\d+),)?password=(.*)", text)
        if not parsed:
            raise Failure(f"the value of {mechanism} must be [iterations=NUMBER,password=TEXT] or [password=TEXT]")
        iterations = int(parsed[1]) if parsed[1] not in (None, "-1") else ITERATIONS
        if iterations < ITERATIONS:
            raise Failure(f"Iterations {iterations} is less than the minimum {ITERATIONS} required for {mechanism}")
        info = package.ScramCredentialInfo(package.ScramMechanism[mechanism.replace("-", "_")], iterations)
        changes.append(package.UserScramCredentialUpsertion(user, info, parsed[2].encode()))
    for mechanism in remove:
        changes.append(package.UserScramCredentialDeletion(user, package.ScramMechanism[mechanism.replace("-", "_")]))
    try:
        for future in admin.alter_user_scram_credentials(changes).values():
            future.result()
    except Exception as error:
        told = broker_error(error)
        if told is None:
            raise
        raise Failure(told) from error
