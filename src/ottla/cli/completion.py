"""`ottla completion SHELL`: the script with which a shell completes command lines of `ottla`.

click does the completing: the shell asks the command itself, with `_OTTLA_COMPLETE` in its environment. In bash the
same function serves Kafka's names, too.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ottla.cli.common.invocation import COMPLETION
from ottla.cli.common.kafka_names import SCRIPTS

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", short_help="Print the script that completes command lines in a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script with which a shell completes commands and options at the Tab key.

    \b
    bash:  echo 'eval "$(ottla completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(ottla completion zsh)"' >> ~/.zshrc
    fish:  ottla completion fish > ~/.config/fish/completions/ottla.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    completer = kind(click.Command("ottla"), {}, "ottla", COMPLETION)
    # not source(), which would run bash only to learn how old it is
    click.echo(completer.source_template % completer.source_vars())
    if shell == "bash":
        names = " ".join(name + end for name in SCRIPTS for end in ("", ".sh"))
        click.echo(f"complete -o nosort -F {completer.func_name} {names}")
