"""`ottla features`: which features hold at which level, and other levels for them, as kafka-features does (KIP-584).

`metadata.version` and its release versions are levels of KRaft's own log, which ottla does not have: --metadata and
--release-version are refused, and `version-mapping` shows the levels that this release starts with.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from ottla.cli.common.invocation import Failure
from ottla.cli.common.options import Tool, given_only_with
from ottla.cli.common.output import output_asked, output_option, show
from ottla.cli.common.reach import Reach, reaches
from ottla.cli.common.requests import error_text
from ottla.controller.features import SUPPORTED, UpgradeType, offered
from ottla.protocol.messages import UpdateFeaturesRequest

ACTIONS = ("describe", "upgrade", "downgrade", "disable", "version-mapping", "feature-dependencies")
CHANGES = ("upgrade", "downgrade", "disable")
TIMEOUT_MS = 30_000
MOST = 32767


@click.command("features", cls=Tool, short_help="Show and change the levels of features.")
@click.argument("action", type=click.Choice(ACTIONS), default="describe")
@click.option("--feature", multiple=True, metavar="FEATURE=LEVEL", help="The feature; disable: without a level.")
@click.option("--unsafe", is_flag=True, help="downgrade, disable: even if metadata are lost.")
@click.option("--dry-run", is_flag=True, help="Only check whether it can be done.")
@click.option("--metadata", metavar="VERSION", help="Refused: ottla has no metadata.version.")
@click.option("--release-version", metavar="VERSION", help="Refused: ottla has no metadata.version.")
@reaches
@output_option
@click.pass_context
def command(
    ctx: click.Context,
    action: str,
    feature: tuple[str, ...],
    unsafe: bool,
    dry_run: bool,
    metadata: str | None,
    release_version: str | None,
    reach: Reach,
    output: str,
) -> None:
    """Show the levels of features (describe), and change them (upgrade, downgrade, disable)."""
    given_only_with(ctx, action, {"--feature": feature}, *CHANGES, "feature-dependencies")
    given_only_with(ctx, action, {"--dry-run": dry_run}, *CHANGES)
    given_only_with(ctx, action, output_asked(ctx), "describe", "version-mapping")
    given_only_with(ctx, action, {"--unsafe": unsafe}, "downgrade", "disable")
    given_only_with(ctx, action, {"--metadata": metadata}, "upgrade", "downgrade")
    given_only_with(ctx, action, {"--release-version": release_version}, "upgrade", "downgrade", "version-mapping")
    if metadata is not None or release_version is not None:
        raise Failure("ottla has no metadata.version; its features have levels of their own: --feature FEATURE=LEVEL")
    if action == "describe":
        _describe(reach, output)
    elif action == "version-mapping":
        rows = [(name, one.default) for name, one in sorted(offered(SUPPORTED).items())]
        show(output, ("feature", "level"), rows, [f"{name}={level}" for name, level in rows])
    elif action == "feature-dependencies":
        _dependencies(reach, feature)
    else:
        _change(reach, action, feature, unsafe, dry_run)


def _describe(reach: Reach, output: str) -> None:
    with reach.cluster() as cluster:
        known = cluster.seed.api_versions
    levels = {one.name: one.max_version_level for one in known.finalized_features}
    epoch = known.finalized_features_epoch
    rows = [
        (one.name, one.min_version, one.max_version, levels.get(one.name, 0), None if epoch < 0 else epoch)
        for one in sorted(known.supported_features, key=lambda one: str(one.name))
    ]
    lines = [
        f"Feature: {name:<40}  SupportedMinVersion: {low:<15}  SupportedMaxVersion: {high:<15}"
        f"  FinalizedVersionLevel: {level:<15}  Epoch: {'-' if at is None else at}"
        for name, low, high, level, at in rows
    ]
    show(output, ("feature", "supported_min", "supported_max", "finalized", "epoch"), rows, lines)


def _levels(features: Sequence[str]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for text in features:
        name, equals, level = (part.strip() for part in text.partition("="))
        if not equals:
            raise click.UsageError(f"Can't parse feature=level string {text}: equals sign not found.")
        if not level.removeprefix("-").isdecimal() or abs(int(level)) > MOST:
            raise click.UsageError(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")
        if name in levels:
            raise click.UsageError(f"Feature {name} was specified more than once.")
        levels[name] = int(level)
    return levels


def _dependencies(reach: Reach, features: Sequence[str]) -> None:
    if not features:
        raise click.UsageError("feature-dependencies needs --feature")
    with reach.cluster() as cluster:
        known = {one.name: one.max_version for one in cluster.seed.api_versions.supported_features}
    for name, level in _levels(features).items():
        if name not in known:
            raise Failure(f"Unknown feature: {name}")
        if not 0 <= level <= known[name]:
            raise Failure(f"Feature {name} has no level {level}: {known[name]} is the highest")
        click.echo(f"{name}={level} has no dependencies.")


def _change(reach: Reach, action: str, features: Sequence[str], unsafe: bool, dry_run: bool) -> None:
    levels = _levels([f"{name}=0" for name in features] if action == "disable" else features)
    if not levels:
        raise click.UsageError(f"You must specify at least one feature to {action}")
    down = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    kind = UpgradeType.UPGRADE if action == "upgrade" else down
    request = UpdateFeaturesRequest(
        timeout_ms=TIMEOUT_MS,
        feature_updates=[
            UpdateFeaturesRequest.FeatureUpdate(
                feature=name, max_version_level=level, allow_downgrade=action != "upgrade", upgrade_type=kind
            )
            for name, level in levels.items()
        ],
        validate_only=dry_run,
    )
    with reach.cluster() as cluster:
        reply = cluster.controller().call(request)
    told = {one.feature: one.error_message or error_text(one.error_code) for one in reply.results if one.error_code}
    if reply.error_code:  # all of the request holds, or nothing
        told = dict.fromkeys(levels, reply.error_message or error_text(reply.error_code))
    for name, level in sorted(levels.items()):
        if name in told:
            what = f"disable {name}" if action == "disable" else f"{action} {name} to {level}"
            click.echo(f"{'Can not' if dry_run else 'Could not'} {what}. {told[name]}")
        else:
            what = "disabled." if action == "disable" else f"{action}d to {level}."
            click.echo(f"{name} {'can be' if dry_run else 'was'} {what}")
    if told:
        raise Failure(f"{len(told)} out of {len(levels)} operation(s) failed.")
