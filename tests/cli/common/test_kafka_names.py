import tomllib
from pathlib import Path

from ottla.cli.common.kafka_names import SCRIPTS

ROOT = Path(__file__).parents[3]


def test_every_script_of_kafka_is_installed_and_stands_in_bin() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {name for name in scripts if name != "ottla"} == {name + end for name in SCRIPTS for end in ("", ".sh")}
    assert {path.name for path in (ROOT / "bin").iterdir()} - {"kafka-tool.sh"} == {name + ".sh" for name in SCRIPTS}
