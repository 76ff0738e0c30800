import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.testing import BrokerProcess
from support.consoles import fresh
from support.tools import Tool


class Groups:
    """A topic with six records in each of two partitions, and a group that has read half of them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic, self.name = fresh("topic"), fresh("group")
        self.tool = Tool("kafka-consumer-groups", bootstrap)
        Tool("kafka-topics", bootstrap).works(f"--create --topic {self.topic} --partitions 2 --replication-factor 1")
        typed = "".join(f"{key},{number}\n" for number in range(6) for key in "ag")
        words = f"--topic {self.topic} --property parse.key=true --property key.separator=, --timeout 0"
        partitioner = "--producer-property partitioner=consistent"
        assert Tool("kafka-console-producer", bootstrap)(f"{words} {partitioner}", typed).status == 0
        self.reset("--to-offset 3 --execute")

    def reset(self, words: str) -> list[str]:
        scope = (
            "" if "--topic" in words or "--all-topics" in words or "--from-file" in words else f"--topic {self.topic}"
        )
        said = self.tool(f"--reset-offsets --group {self.name} {scope} {words}")
        assert said.status == 0, said
        return [" ".join(line.split()[2:]) for line in said.out[2:]]

    @contextmanager
    def member(self, *words: str) -> Iterator[None]:
        """While it runs, the group has a member that reads."""
        command = [sys.executable, "-m", "ottla.cli", "console-consumer", "--topic", self.topic, "--group", self.name]
        environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVER": self.bootstrap}
        with subprocess.Popen(
            [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        ) as process:
            assert process.stdout is not None
            try:
                assert process.stdout.readline()
                yield
            finally:
                process.terminate()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    overrides = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
    with BrokerProcess(overrides=overrides) as made:
        yield made


@pytest.fixture
def groups(broker: BrokerProcess) -> Groups:
    return Groups(broker.bootstrap)


def test_groups_are_listed_with_state_and_type(groups: Groups) -> None:
    assert groups.name in groups.tool.works("--list")
    assert groups.name in groups.tool.works("")
    listed = [line.split() for line in groups.tool.works("--list --state EMPTY,stable --type")]
    assert listed[0] == ["GROUP", "TYPE", "STATE"]
    assert [groups.name, "Classic", "Empty"] in listed
    assert [groups.name] not in [line.split()[:1] for line in groups.tool.works("--list --state stable")]
    found = groups.tool("--list --output json").json
    assert {"group": groups.name, "type": "Classic", "state": "Empty"} in found


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        ("--to-earliest", [0, 0]),
        ("--to-latest", [6, 6]),
        ("--to-offset 0", [0, 0]),
        ("--shift-by 0", [3, 3]),
        ("--to-current", [3, 3]),
        ("--to-offset 5", [5, 5]),
        ("--to-offset 50", [6, 6]),
        ("--shift-by 2", [5, 5]),
        ("--shift-by -2 --all-topics", [1, 1]),
        ("--shift-by -20", [0, 0]),
        ("--by-duration P1D", [0, 0]),
        ("--to-datetime 2000-01-01T00:00:00.000", [0, 0]),
        ("--to-datetime 2999-01-01T00:00:00.000", [6, 6]),
    ],
)
def test_offsets_are_reset(groups: Groups, words: str, offsets: list[int]) -> None:
    planned = [f"{number} {offset}" for number, offset in enumerate(offsets)]
    assert groups.reset(f"{words} --dry-run") == planned
    assert _committed(groups) == [3, 3]
    assert groups.reset(f"{words} --execute") == planned
    assert _committed(groups) == offsets


def _committed(groups: Groups) -> list[Any]:
    described = groups.tool(f"--describe --group {groups.name} --output json").json
    return [row["current_offset"] for row in sorted(described, key=lambda row: int(row["partition"]))]


def test_certain_partitions_alone_are_reset(groups: Groups) -> None:
    assert groups.reset(f"--topic {groups.topic}:1 --to-latest --execute") == ["1 6"]
    assert _committed(groups) == [3, 6]


def test_what_is_clamped_is_told(groups: Groups) -> None:
    said = groups.tool(f"--reset-offsets --group {groups.name} --topic {groups.topic}:0 --shift-by -9 --dry-run")
    place = f"topic partition {groups.topic}-0"
    assert said.err == [f"WARN New offset (-6) is lower than earliest offset for {place}. Value will be set to 0"]


def test_a_plan_is_exported_and_carried_out(groups: Groups, tmp_path: Path) -> None:
    words = f"--reset-offsets --group {groups.name} --topic {groups.topic} --to-latest --export --dry-run"
    exported = groups.tool.works(words)
    assert exported == [f"{groups.topic},0,6", f"{groups.topic},1,6"]
    (tmp_path / "plan.csv").write_text("\n".join(exported))
    assert groups.reset(f"--from-file {tmp_path}/plan.csv --execute") == ["0 6", "1 6"]
    assert _committed(groups) == [6, 6]
    said = groups.tool(f"--reset-offsets --group other --from-file {tmp_path}/nowhere --dry-run")
    assert said.status == 2


def test_a_group_at_work_is_shown_and_left_alone(groups: Groups, tmp_path: Path) -> None:
    export = Tool("ottla export-offsets", groups.bootstrap)
    (tmp_path / "offsets").write_text("\n".join(export.works(f"--group {groups.name} --output-file -")))
    with groups.member("--consumer-property", "group.instance.id=one"):
        described = groups.tool.works(f"--describe --group {groups.name}")
        assert described[1].split() == [
            "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"
        ]  # fmt: skip
        for number, line in enumerate(described[2:]):
            cells = line.split()
            assert (cells[:3], cells[4]) == ([groups.name, groups.topic, str(number)], "6")
            assert cells[6].startswith("one-")
            assert cells[7:] == ["/127.0.0.1", "console-consumer"]
        members = [line.split() for line in groups.tool.works(f"--describe --group {groups.name} --members --verbose")]
        assert members[1][2] == "GROUP-INSTANCE-ID"
        assert members[2][2:] == ["one", "/127.0.0.1", "console-consumer", "2", "-", f"{groups.topic}:0,1", "-", "-"]
        state = groups.tool.works(f"--describe --group {groups.name} --state")[2].split()
        assert state == [groups.name, groups.bootstrap, "(0)", "range", "Stable", "1"]

        said = groups.tool(f"--reset-offsets --group {groups.name} --topic {groups.topic} --to-latest --execute")
        assert (said.status, said.out) == (1, [])
        assert said.err == [
            f"Error: Assignments can only be reset if the group '{groups.name}' is inactive, "
            "but the current state is Stable."
        ]
        said = groups.tool(f"--delete --group {groups.name}")
        assert (said.status, said.out) == (1, [])
        assert f"Error: Group '{groups.name}' could not be deleted due to: NON_EMPTY_GROUP" in said.err[0]
        said = groups.tool(f"--delete-offsets --group {groups.name} --topic {groups.topic}:0")
        assert said.status == 1
        assert f"{groups.topic} 0 GROUP_SUBSCRIBED_TO_TOPIC: " in " ".join(said.out[-1].split())
        said = Tool("ottla import-offsets", groups.bootstrap)(f"--input-file {tmp_path}/offsets")
        assert said.status == 1
        assert said.err == [
            f"ottla: group {groups.name} has 1 active members, which would overwrite what is imported: "
            "stop them first; nothing is imported"
        ]


def test_a_group_of_the_new_protocol_is_shown_with_its_epochs(groups: Groups) -> None:
    groups.name = fresh("modern")
    with groups.member("--from-beginning", "--consumer-property", "group.protocol=consumer"):
        listed = [line.split() for line in groups.tool.works("--list --type consumer --state")]
        assert [groups.name, "Consumer", "Stable"] in listed
        state = groups.tool.works(f"--describe --group {groups.name} --state --verbose")
        assert state[1].split()[-3:] == ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"]
        cells = state[2].split()
        assert cells[3:5] == ["uniform", "Stable"]
        assert int(cells[5]) == int(cells[6]) > 0
        member = groups.tool.works(f"--describe --group {groups.name} --members --verbose")[2].split()
        both = f"{groups.topic}:0,1"
        assert member[2:] == ["/127.0.0.1", "console-consumer", "2", cells[5], both, cells[5], both]


def test_offsets_of_a_topic_are_deleted(groups: Groups) -> None:
    said = groups.tool(f"--delete-offsets --group {groups.name} --topic {groups.topic}:0 --topic nowhere")
    assert said.status == 1
    rows = [" ".join(line.split()) for line in said.out[2:]]
    assert rows[0] == f"{groups.topic} 0 Successful"
    assert rows[1].startswith("nowhere - UNKNOWN_TOPIC_OR_PARTITION")
    assert _committed(groups) == [3]
    said = groups.tool(f"--delete-offsets --group {fresh('nobody')} --topic {groups.topic}")
    assert said.status == 1
    assert "GROUP_ID_NOT_FOUND" in said.err[0]


def test_some_groups_are_deleted_and_others_told(groups: Groups) -> None:
    said = groups.tool(f"--delete --group {groups.name} --group nobody")
    assert said.status == 1
    assert said.out == [f"These consumer groups were deleted successfully: '{groups.name}'"]
    assert said.err[0].startswith("Error: Group 'nobody' could not be deleted due to: GROUP_ID_NOT_FOUND")
    assert groups.name not in groups.tool.works("--list")


def test_what_destroys_is_asked_for_first(groups: Groups) -> None:
    own = Tool("ottla consumer-groups", groups.bootstrap)
    said = own(f"--delete --group {groups.name}")
    assert (said.status, said.out) == (1, [])
    assert said.err == [
        f"ottla: Delete consumer group {groups.name}: say --yes to do it without being asked"
    ]  # fmt: skip
    assert own(f"--delete-offsets --group {groups.name} --topic {groups.topic}").status == 1
    assert _committed(groups) == [3, 3]
    assert own(f"--delete --group {groups.name} --yes").status == 0


def test_a_group_that_is_not_there_is_told_and_the_others_are_shown(groups: Groups) -> None:
    said = groups.tool(f"--describe --group nobody --group {groups.name} --state")
    assert said.status == 1
    assert said.out[2].split()[0] == groups.name
    assert said.err[-1] == "Error: Consumer group 'nobody' does not exist."


def test_patterns_are_judged_by_re2() -> None:
    tool = Tool("kafka-consumer-groups", "nowhere:1")  # no broker is asked
    assert tool.works("--validate-regex 'a.*'") == ["The regular expression `a.*` is valid."]
    said = tool("--validate-regex 'a(?=b)'")
    assert said.status == 1
    assert said.out[0].startswith("The regular expression `a(?=b)` is invalid: ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--list --describe", "exactly one action is wanted: --list, --describe"),
        ("--list --group g", "--group cannot go with --list"),
        ("--list --state bogus", "Invalid state list 'bogus'. Valid states are: Assigning, "),
        ("--list --type bogus", "Invalid types list 'bogus'. Valid types are: Classic, Consumer"),
        ("--describe", "--describe takes one of --group and --all-groups"),
        ("--describe --group g --all-groups", "--group cannot go with --all-groups"),
        ("--describe --group g --members --state", "at most one of --members, --offsets and --state"),
        ("--describe --group g --state stable", "--describe does not take a value for --state"),
        ("--describe --group g --topic t", "--topic cannot go with --describe"),
        ("--describe --group g --execute", "--execute cannot go with --describe"),
        ("--describe --group g --to-offset 0", "--to-offset cannot go with --describe"),
        ("--delete --group g --output json", "--output cannot go with --delete"),
        ("--delete", "--delete takes one of --group and --all-groups"),
        ("--delete-offsets --group g", "--delete-offsets takes one --group and at least one --topic"),
        ("--reset-offsets --group g --topic t", "takes exactly one of --to-earliest, "),
        ("--reset-offsets --group g --topic t --to-latest --to-current", "takes exactly one of --to-earliest, "),
        ("--reset-offsets --group g --to-latest", "One of the reset scopes should be defined: --all-topics, --topic."),
        ("--reset-offsets --topic t --to-latest", "--reset-offsets takes one of --group and --all-groups"),
        ("--reset-offsets --group g --topic t --to-latest --execute --dry-run", "only accepts one of --execute and"),
        ("--reset-offsets --group g --topic t:x --to-latest --dry-run", "Invalid topic arg 't:x'"),
        ("--reset-offsets --group g --topic t --to-offset -1", "-1 is not in the range"),
        ("--reset-offsets --group g --topic t --to-datetime now --dry-run", "--to-datetime now must be"),
        ("--reset-offsets --group g --topic t --by-duration 1h --dry-run", "--by-duration 1h must be"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(broker: BrokerProcess, words: str, told: str) -> None:
    said = Tool("kafka-consumer-groups", broker.bootstrap)(words)
    assert (said.status, len(said.err), said.out) == (2, 1, [])
    assert told in said.err[0]


@pytest.mark.parametrize("where", ["nowhere", "nowhere:0"])
def test_topics_that_are_not_there_are_told(groups: Groups, where: str) -> None:
    said = groups.tool(f"--reset-offsets --group {groups.name} --topic {where} --to-latest --dry-run")
    assert said.status == 1
    assert said.err == ["kafka-consumer-groups: there is no topic or partition nowhere"]
    said = groups.tool(f"--reset-offsets --group {groups.name} --topic {groups.topic}:7 --to-latest --dry-run")
    assert said.err == [f"kafka-consumer-groups: there is no topic or partition {groups.topic}-7"]
    said = groups.tool(f"--reset-offsets --group nobody --topic {groups.topic} --shift-by 1 --dry-run")
    assert "Cannot shift offset for partition" in said.err[0]


def test_offsets_go_into_a_file_and_come_back(groups: Groups, tmp_path: Path) -> None:
    file = tmp_path / "offsets"
    assert Tool("ottla export-offsets", groups.bootstrap).works(f"--group {groups.name} --output-file {file}") == []
    place = f"/consumers/{groups.name}/offsets/{groups.topic}"
    assert file.read_text() == f"{place}/0:3\n{place}/1:3\n"
    into = Tool("ottla import-offsets", groups.bootstrap)
    file.write_text(f"{place}/0:1\n{place}/1:2\n")
    said = into(f"--input-file {file}")
    assert (said.status, said.err) == (
        1,
        [f"ottla: Set 2 offsets of {groups.name}: say --yes to do it without being asked"],
    )
    assert _committed(groups) == [3, 3]
    assert into.works(f"--input-file {file} --yes") == []
    assert _committed(groups) == [1, 2]
    file.write_text(f"{place}/0:5\n{place}/9:5\n")
    said = into(f"--input-file {file}")
    assert said.status == 1
    assert said.err == [f"ottla: there is no topic or partition {groups.topic}-9; nothing is imported"]
    assert _committed(groups) == [1, 2]
    said = Tool("ottla export-offsets", groups.bootstrap)("--group nobody --output-file -")
    assert (said.status, said.err) == (1, ["ottla: group nobody has no offsets"])
    said = Tool("ottla export-offsets", groups.bootstrap)(f"--output-file {tmp_path}/no/where")
    assert (said.status, "cannot write" in said.err[0]) == (2, True)
