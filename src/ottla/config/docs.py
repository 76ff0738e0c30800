"""Writes docs/configuration.md from the definitions: `python -m ottla.config.docs [FILE]`."""

from __future__ import annotations

import sys
from pathlib import Path

from ottla.config.broker import BrokerConfig
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.definitions import Configuration, Setting
from ottla.config.group import GroupConfig
from ottla.config.log_defaults import LogDefaults
from ottla.config.topic import DROPPED, TIMESTAMP_DIFFERENCE, TopicConfig
from ottla.config.without_effect import BY_PREFIX, BY_REASON

HEAD = """# Configuration

*Made from the definitions in `src/ottla/config` by `python -m ottla.config.docs`; a test keeps it in step.*

A broker reads Kafka's own property names from a file and from the command line, the latter winning:

    ottla broker server.properties --override num.partitions=3 --override log.dirs=/srv/ottla

A key that ottla does not know is warned about with the nearest one that it knows, a key of Kafka's that changes nothing
here with the reason, and an illegal value is refused.

**Update** is Kafka's word for how a setting may change on a running broker (AlterConfigs, IncrementalAlterConfigs):
`cluster-wide` for one broker or for all, `per-broker` for one, `read-only` not at all: it needs a restart. What is
changed holds at once and after restarts, and stands before the file: this broker's override, the one for all brokers,
the file and the command line, the default.
"""


def render() -> str:
    """The whole page."""
    own = [known for key, known in BrokerConfig.settings.items() if key not in LogDefaults.settings]
    parts = [HEAD, "\n## Broker\n"]
    parts += [_broker_table(own)]
    parts += ["\n## Broker: defaults of topics\n", _broker_table(list(LogDefaults.settings.values()))]
    parts += [
        "\n## Topic\n\nSet at a topic's creation or later, effective at once; where nothing is set, the first of the "
        "broker's settings that is.\n",
        _table(TopicConfig),
    ]
    parts.append("\nTaken from older Kafka:\n\n")
    parts.append(f"- `{TIMESTAMP_DIFFERENCE}` sets `message.timestamp.before.max.ms` and `…after.max.ms`.\n")
    parts += [f"- `{key}` has no effect: {reason}.\n" for key, reason in DROPPED.items()]
    parts += ["\n## Group\n\nSet at any time, for a group that exists or not.\n", _table(GroupConfig)]
    parts += [
        "\n## Client metrics\n\nWhat a subscription to clients' own metrics (KIP-714) consists of.\n",
        _table(ClientMetricsConfig),
    ]
    parts.append("\n## Known to Kafka, without effect in ottla\n\n| keys | why |\n|---|---|\n")
    for reason, keys in BY_REASON.items():
        parts.append(f"| {', '.join(f'`{key}`' for key in keys.split())} | {_cell(reason)} |\n")
    for prefix, reason in BY_PREFIX.items():
        parts.append(f"| `{prefix}*` | {_cell(reason)} |\n")
    return "".join(parts)


def _table(kind: type[Configuration]) -> str:
    lines = ["\n| key | type | default | legal | broker's settings behind it | meaning |\n|---|---|---|---|---|---|\n"]
    for known in sorted(kind.settings.values(), key=lambda one: one.key):
        behind = ", ".join(f"`{name}`" for name, _ in known.synonyms) or "-"
        lines.append(
            f"| {_names(known)} | {known.type.name} | {_default(known)} | {_cell(known.legal_words)} | {behind} "
            f"| {_meaning(known)} |\n"
        )
    return "".join(lines)


def _broker_table(settings: list[Setting]) -> str:
    lines = ["\n| key | type | default | legal | update | meaning |\n|---|---|---|---|---|---|\n"]
    for known in sorted(settings, key=lambda one: one.key):
        lines.append(
            f"| {_names(known)} | {known.type.name} | {_default(known)} | {_cell(known.legal_words)} | {known.dynamic} "
            f"| {_meaning(known)} |\n"
        )
    return "".join(lines)


def _names(known: Setting) -> str:
    others = ", ".join(f"`{name}`" for name in known.names[1:])
    return f"`{known.key}`" + (f" (also {others})" if others else "")


def _default(known: Setting) -> str:
    if known.default is None:
        return "unset"
    return f"`{known.show(known.default)}`" if known.show(known.default) else "empty"


def _meaning(known: Setting) -> str:
    return _cell(known.doc) + (f" *No effect so far: {_cell(known.no_effect)}.*" if known.no_effect else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else "docs/configuration.md").write_text(render(), encoding="utf-8")
