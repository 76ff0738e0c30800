"""`ottla server-stop`: stops the brokers that this user runs on this machine, and waits until they are gone.

Kafka's script sends the signal and returns; here the command ends when the brokers have. The environment's SIGNAL
names another signal than TERM, as there.
"""

from __future__ import annotations

import os
import select
import signal
import sys

import click

from ottla.cli.common.invocation import Failure, by_kafka_name
from ottla.cli.common.options import Tool, int32
from ottla.cli.common.processes import RunningBroker, running_brokers, still_serves

PATIENCE_SECONDS = 300.0
ROLE = "broker"  # the only role that there is


@click.command("server-stop", cls=Tool, short_help="Stop the brokers of this user.")
@click.option("--node-id", type=int32(), help="Only the broker with this id.")
@click.option("--process-role", help="Only processes with this role; all have the role broker.")
def command(node_id: int | None, process_role: str | None) -> int:
    """Stop the brokers that run on this machine under this user, and wait until they are gone."""
    if node_id is not None and process_role is not None:
        click.echo("When both node-id and process-role are provided, the value for node-id will take precedence")
    number = _signal()
    found = [
        one
        for one in running_brokers()
        if (one.node_id == node_id if node_id is not None else process_role in (None, ROLE))
    ]
    if not found:
        click.echo("No kafka server to stop")
        return 1
    waiting = {descriptor: one for one in found if (descriptor := _told_to_stop(one, number)) is not None}
    _wait(waiting)
    return 0


def _signal() -> signal.Signals:
    name = os.environ.get("SIGNAL") or "TERM"
    try:
        return signal.Signals(int(name)) if name.isdigit() else signal.Signals["SIG" + name.upper().removeprefix("SIG")]
    except (KeyError, ValueError):
        raise click.UsageError(f"SIGNAL={name} in the environment is no signal") from None


def _told_to_stop(broker: RunningBroker, number: signal.Signals) -> int | None:
    """A descriptor of the process, to which the signal was sent; None where it is gone already."""
    try:
        descriptor = os.pidfd_open(broker.pid)
    except ProcessLookupError:
        return None
    if not still_serves(broker.pid):  # the number could have gone to another process before it was opened
        os.close(descriptor)
        return None
    signal.pidfd_send_signal(descriptor, number)
    return descriptor


def _wait(waiting: dict[int, RunningBroker]) -> None:
    poll = select.poll()
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    while waiting:
        ended = poll.poll(PATIENCE_SECONDS * 1000)
        if not ended:
            left = ", ".join(str(one.pid) for one in waiting.values())
            raise Failure(f"still running after {PATIENCE_SECONDS:.0f} s: {left}; SIGNAL=KILL ends them at once")
        for descriptor, _ in ended:
            poll.unregister(descriptor)
            os.close(descriptor)
            broker = waiting.pop(descriptor)
            if not by_kafka_name():
                name = "broker" if broker.node_id is None else f"broker {broker.node_id}"
                print(f"stopped {name} (pid {broker.pid})", file=sys.stderr)
