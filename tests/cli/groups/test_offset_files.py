import pytest

from ottla.cli.common.invocation import Misconfigured
from ottla.cli.groups.offset_files import lines, read
from ottla.cli.groups.offsets import Partition


def test_offsets_are_written_and_read_in_the_form_of_the_texts() -> None:
    text = ["/consumers/testgroup/offsets/my-topic/0:8905", "/consumers/testgroup/offsets/my-topic/1:8915"]
    offsets = {Partition("my-topic", 0): 8905, Partition("my-topic", 1): 8915}
    assert list(lines("testgroup", offsets)) == text
    assert read([*text, "", "  "], "f") == {"testgroup": offsets}
    odd = {Partition("t", 0): 1}
    assert read(lines("a/offsets/b: c", odd), "f") == {"a/offsets/b: c": odd}


@pytest.mark.parametrize(
    "line",
    [
        "/consumers/g/offsets/t/0",
        "/consumers/g/offsets/t/x:1",
        "/consumers/g/offsets/t/0:-1",
        "/consumers//offsets/t/0:1",
        "/consumers/g/owners/t/0:1",
        "/consumers/g/offsets/topic/t/1-0:5",
        f"/consumers/g/offsets/t/0:{2**63}",
        f"/consumers/g/offsets/t/{2**31}:0",
    ],
)
def test_a_line_of_another_form_is_named(line: str) -> None:
    with pytest.raises(Misconfigured, match=r"file, line 2: .*; nothing is imported"):
        read(["/consumers/g/offsets/t/0:1", line], "file")


def test_two_offsets_of_one_partition_are_told() -> None:
    with pytest.raises(Misconfigured, match=r"line 2: another offset of t-0 in group g stands above \(and 1 more\)"):
        read(["/consumers/g/offsets/t/0:1", "/consumers/g/offsets/t/0:2", "x"], "file")
