"""What is wrong is said in one line that names it, before any Spark work."""

from __future__ import annotations

import json
import re
import socket
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.preflight import Identity, check_checkpoint, check_topics, claim_checkpoint, existing
from ottla.testing import BrokerProcess

MINE = Identity("word-count", "word-count-0", ("lines",), "abc")


@pytest.fixture(scope="module")
def orders(ottla_shared_broker: BrokerProcess) -> str:
    name = f"orders-{uuid.uuid4().hex[:6]}"
    admin = AdminClient({"bootstrap.servers": ottla_shared_broker.bootstrap})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result()
    return name


def test_topics_are_found_with_their_partitions(ottla_shared_broker: BrokerProcess, orders: str) -> None:
    assert check_topics(ottla_shared_broker.bootstrap, [orders]) == {orders: 3}
    assert check_topics(ottla_shared_broker.bootstrap, orders) == {orders: 3}
    assert check_topics(ottla_shared_broker.bootstrap, re.compile(orders[:-1] + ".")) == {orders: 3}
    assert check_topics(ottla_shared_broker.bootstrap, re.compile("nothing-like-it")) == {}


def test_an_unknown_topic_is_named_with_the_nearest_there_is(ottla_shared_broker: BrokerProcess, orders: str) -> None:
    wrong = orders.replace("orders", "oders")
    with pytest.raises(PipelineError) as error:
        check_topics(ottla_shared_broker.bootstrap, [orders, wrong])
    assert f"there is no topic {wrong} at {ottla_shared_broker.bootstrap}: did you mean {orders}?" in str(error.value)
    assert wrong not in existing(ottla_shared_broker.bootstrap)  # asking has not made it


def test_a_broker_that_is_not_there_is_named_soon() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(PipelineError) as error:
            existing(address, patience=2)
    assert time.monotonic() - started < 10
    assert f"no broker answers at {address}" in str(error.value)
    assert "Connection refused" in str(error.value)


def test_an_address_that_is_none_is_named() -> None:
    with pytest.raises(PipelineError, match=r"no\.such\.host\.invalid:9092"):
        existing("no.such.host.invalid:9092", patience=2)


def test_a_setting_that_is_none_is_named() -> None:
    with pytest.raises(PipelineError, match=r"security\.protocol"):
        existing("127.0.0.1:9092", {"security.protocol": "magic"})


def test_a_checkpoint_is_claimed_and_known_again(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoint"
    assert check_checkpoint(str(directory), MINE) is None
    claim_checkpoint(directory.as_uri(), MINE)
    assert check_checkpoint(str(directory), MINE) == MINE
    changed = Identity("word-count", "word-count-0", ("lines",), "def")
    assert check_checkpoint(directory.as_uri(), changed) == MINE  # what that means, the caller says
    assert check_checkpoint("hdfs://cluster/somewhere", MINE) is None


def test_the_checkpoint_of_another_application_is_refused_with_both_names(tmp_path: Path) -> None:
    claim_checkpoint(str(tmp_path), Identity("stock-stats", "stock-stats-1", ("quotes",), "x"))
    with pytest.raises(PipelineError) as error:
        check_checkpoint(str(tmp_path), MINE)
    for named in ("stock-stats", "stock-stats-1", "word-count", "word-count-0", str(tmp_path)):
        assert named in str(error.value)


def spark_query(path: Path) -> None:
    (path / "metadata").write_text('{"id":"x"}')
    (path / "offsets").mkdir()


def strange(path: Path) -> None:
    (path / "holiday.jpg").touch()


def damaged(path: Path) -> None:
    (path / "ottla.json").write_text('{"application":')


def strange_identity(path: Path) -> None:
    (path / "ottla.json").write_text(json.dumps([1]))


def empty_metadata(path: Path) -> None:
    claim_checkpoint(str(path), MINE)
    (path / "metadata").touch()


def no_metadata(path: Path) -> None:
    claim_checkpoint(str(path), MINE)
    (path / "offsets").mkdir()
    (path / "offsets" / "0").touch()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (spark_query, "is of a Spark query that is not word-count's word-count-0"),
        (strange, "other things in it (holiday.jpg)"),
        (damaged, "is damaged: ottla.json"),
        (strange_identity, "is damaged: ottla.json"),
        (empty_metadata, "is damaged: its file metadata is no JSON"),
        (no_metadata, "is damaged: its file metadata is gone"),
    ],
)
def test_a_directory_that_is_no_checkpoint_of_ours_is_refused(tmp_path: Path, make: object, why: str) -> None:
    make(tmp_path)  # type: ignore[operator]
    with pytest.raises(PipelineError) as error:
        check_checkpoint(str(tmp_path), MINE)
    assert why in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_a_checkpoint_that_is_a_file_or_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="is a file"):
        check_checkpoint(str(tmp_path / "file"), MINE)
    with pytest.raises(PipelineError, match="cannot be written"):
        claim_checkpoint(str(tmp_path / "file" / "below"), MINE)
