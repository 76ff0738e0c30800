"""Completion in a real bash; that of other shells is click's own."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.cli.common.kafka_names import SCRIPTS


@pytest.fixture
def shims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`ottla` and one of Kafka's names as commands of the shell."""
    code = "from ottla.cli.main import main; main()"
    kafka = "from ottla.cli.main import run_by_kafka_name; run_by_kafka_name('kafka-topics.sh')"
    for name, text in {"ottla": code, "kafka-topics.sh": kafka}.items():
        shim = tmp_path / name
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{text}" "$@"\n')
        shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


@pytest.fixture
def completed(shims: Path) -> Callable[[str], list[str]]:
    """What bash offers for a line."""

    def run(line: str) -> list[str]:
        words = line.split(" ")
        script = f"""eval "$(ottla completion bash)"
            COMP_WORDS=({" ".join(word or "''" for word in words)}); COMP_CWORD={len(words) - 1}
            $(complete -p {words[0]} | sed 's/.*-F \\([^ ]*\\).*/\\1/') {words[0]}
            printf '%s\\n' "${{COMPREPLY[@]}}" """
        done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
        assert not done.stderr
        return done.stdout.split()

    return run


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ottla to", ["topics"]),
        ("ottla producer-perf-test --payload", ["--payload-file", "--payload-delimiter", "--payload-monotonic"]),
        ("ottla verifiable-consumer --topic t --reset-policy ", ["earliest", "latest", "none"]),
        ("ottla e2e-latency -bootstrap-server h --producer-acks a", ["all"]),
        ("ottla run-class kafka.tools.Dump", ["kafka.tools.DumpLogSegments"]),
        ("ottla completion z", ["zsh"]),
        ("ottla topics --nonsense --bootstrap-s", ["--bootstrap-server"]),
        ("ottla streams d", ["describe"]),
        ("ottla streams reset --to-d", ["--to-datetime"]),
        ("ottla streams describe app.py --format ", ["text", "mermaid", "svg"]),
        ("kafka-topics.sh --bootstrap-s", ["--bootstrap-server"]),
        ("ottla frob", []),
    ],
)
def test_bash_completes_commands_options_and_values(completed, line: str, offered: list[str]) -> None:
    assert completed(line) == offered


def test_the_tab_key_completes_in_a_shell_on_a_terminal(shims: Path) -> None:
    parent, child = pty.openpty()
    with subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
        env={**os.environ, "PS1": "ready> ", "TERM": "dumb", "INPUTRC": os.devnull},
    ) as shell:
        os.close(child)
        try:
            _until(parent, b"ready> ")
            os.write(parent, b'eval "$(ottla completion bash)"; echo done-$((1+1))\n')
            _until(parent, b"done-2")
            os.write(parent, b"ottla e2e\t--rec\t\t")
            _until(parent, b"ottla e2e-latency --record-")
        finally:
            shell.kill()
            os.close(parent)


def _until(descriptor: int, wanted: bytes) -> None:
    """Reads the terminal until it shows this."""
    shown = b""
    while wanted not in shown.replace(b"\a", b""):
        assert select.select([descriptor], [], [], 30)[0], shown
        shown += os.read(descriptor, 4096)


def test_commands_are_offered_without_importing_them() -> None:
    code = (
        "import sys; from ottla.cli.main import ottla; import click;"
        "print(len(ottla.shell_complete(click.Context(ottla), '')), 'ottla.cli.dump_log' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == f"{len(main.COMMANDS)} False\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str, capsys) -> None:
    assert main.run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_OTTLA_COMPLETE={shell}_complete" in script
    if shell == "bash":
        assert all(f" {name}.sh" in script for name in SCRIPTS)


def test_another_shell_is_refused(capsys) -> None:
    assert main.run(["completion", "tcsh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err
