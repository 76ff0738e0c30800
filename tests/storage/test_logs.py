"""Data directories: who may open them, what lies in them, how they are left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.config.topic import TopicConfig
from ottla.storage.directory import CLEAN_SHUTDOWN, DataDirectory
from ottla.storage.errors import DirectoryInUse, ForeignDirectory
from ottla.storage.logs import Logs
from support.scribe import Scribe

ID, OTHER_ID = bytes(range(16)), bytes(range(16, 32))


@pytest.fixture
def wanted(config_of: Callable[..., TopicConfig]) -> Callable[..., dict]:
    return lambda *indexes, topic="t", topic_id=ID: {(topic, index): (topic_id, config_of()) for index in indexes}


def test_a_directory_is_held_by_one_broker_at_a_time(tmp_path: Path) -> None:
    first, second = Logs([tmp_path]), Logs([tmp_path])
    first.lock(None, 0)
    with pytest.raises(DirectoryInUse, match="in use by another broker"):
        second.lock(None, 0)
    first.unlock(clean=False)
    second.lock(None, 0)
    second.unlock(clean=False)


def test_a_directory_of_another_broker_or_cluster_is_refused_and_let_go(tmp_path: Path) -> None:
    first = Logs([tmp_path])
    assert first.lock(None, 3) is None
    first.mark("cluster-a", 3)
    first.unlock(clean=False)
    with pytest.raises(ForeignDirectory, match="belongs to broker 3, this is broker 4"):
        Logs([tmp_path]).lock(None, 4)
    with pytest.raises(ForeignDirectory, match="belongs to cluster cluster-a, this is cluster cluster-b"):
        Logs([tmp_path]).lock("cluster-b", 3)
    again = Logs([tmp_path])
    assert again.lock(None, 3) == "cluster-a"
    again.unlock(clean=False)


def test_only_a_proper_close_leaves_the_mark_of_a_clean_shutdown(tmp_path: Path, wanted: Callable[..., dict]) -> None:
    logs = Logs([tmp_path])
    logs.lock(None, 0)
    logs.open_all(wanted(0))
    logs.close()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    directory = DataDirectory(tmp_path)
    directory.open()
    assert directory.was_clean
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    directory.release(clean=False)
    directory.open()
    assert not directory.was_clean
    directory.release(clean=False)


def test_new_partitions_go_to_the_directory_with_the_fewest(tmp_path: Path, wanted: Callable[..., dict]) -> None:
    logs = Logs([tmp_path / "a", tmp_path / "b"])
    logs.lock(None, 0)
    logs.open_all(wanted(0, 1, 2, 3, 4))
    assert sorted(len(list(path.glob("t-*"))) for path in (tmp_path / "a", tmp_path / "b")) == [2, 3]
    logs.close()


def test_logs_that_no_topic_claims_are_put_aside_and_never_deleted(tmp_path: Path, wanted: Callable[..., dict]) -> None:
    logs = Logs([tmp_path])
    logs.lock(None, 0)
    opened = logs.open_all(wanted(0) | wanted(0, topic="gone"))
    Scribe(opened["t", 0]).write("of the first t")
    logs.close()
    logs = Logs([tmp_path])
    logs.lock(None, 0)
    opened = logs.open_all(wanted(0, topic_id=OTHER_ID))
    assert opened["t", 0].end_offset == 0
    assert not (tmp_path / "gone-0").exists()
    assert sorted(path.name.split(".")[0] for path in tmp_path.glob("*-stray")) == ["gone-0", "t-0"]
    logs.close()


def test_a_directory_with_partitions_but_without_its_metadata_is_refused(
    tmp_path: Path, wanted: Callable[..., dict]
) -> None:
    logs = Logs([tmp_path])
    logs.lock(None, 0)
    logs.open_all(wanted(0, 1))
    logs.close()
    logs = Logs([tmp_path])
    logs.lock(None, 0)
    with pytest.raises(ForeignDirectory, match="holds 2 partitions, but no topic is known"):
        logs.open_all({})
    assert (tmp_path / "t-0").exists()
    logs.unlock()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()  # as it was found


def test_a_deletion_that_was_cut_short_can_be_finished_before_the_logs_are_open(
    tmp_path: Path, wanted: Callable[..., dict]
) -> None:
    logs = Logs([tmp_path])
    logs.lock(None, 0)
    logs.open_all(wanted(0))
    logs.close()
    logs = Logs([tmp_path])
    logs.lock(None, 0)
    aside = logs.delete(("t", 0))
    assert aside is not None
    assert aside.name.endswith("-delete")
    logs.close()


def test_a_deleted_log_is_out_of_sight_at_once_and_swept_at_the_next_start(
    tmp_path: Path, wanted: Callable[..., dict]
) -> None:
    logs = Logs([tmp_path])
    logs.lock(None, 0)
    logs.open_all(wanted(0))
    aside = logs.delete(("t", 0))
    assert aside is not None
    assert aside.name.endswith("-delete")
    assert not (tmp_path / "t-0").exists()
    assert logs.delete(("t", 0)) is None
    logs.close()
    directory = DataDirectory(tmp_path)
    directory.open()
    assert not aside.exists()
    directory.release(clean=False)


def test_checkpoints_say_where_logs_end_and_what_is_on_disk(tmp_path: Path, wanted: Callable[..., dict]) -> None:
    logs = Logs([tmp_path])
    logs.lock(None, 0)
    opened = logs.open_all(wanted(0, 1))
    Scribe(opened["t", 1]).write("a", "b")
    logs.write_high_watermarks()
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n2\nt 0 0\nt 1 2\n"
    logs.close()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n2\nt 0 0\nt 1 2\n"
    assert (tmp_path / "t-0" / "partition.metadata").read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
