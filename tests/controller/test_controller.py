"""The controller over a real store: what it writes, in which order it acts, what survives."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from random import Random
from time import perf_counter, sleep

import pytest

from ottla.config.broker import BrokerConfig
from ottla.controller.controller import ClusterIdMismatch, Controller
from ottla.controller.growth import NewPartitions
from ottla.controller.image import BrokerInfo
from ottla.controller.topics import NewTopic
from ottla.coordination.local import LocalStore
from ottla.coordination.store import StoreError
from ottla.protocol.errors import ErrorCode

BROKER = BrokerInfo(7, "r1", {"PLAINTEXT": ("localhost", 9092), "SIX": ("::1", 9093)})


class Logs:
    """Stands where the broker's logs stand: remembers what it was told, and can be made to fail."""

    def __init__(self):
        self.changes = []
        self.grown = []
        self.fail = None
        self.controller = None

    async def __call__(self, change):
        self.grown += [
            (topic.name, first, len(topic.partitions), len(self.controller.image.topics[topic.name].partitions))
            for topic, first in change.grown
        ]
        self.changes.append(([topic.name for topic in change.created], [topic.name for topic in change.deleted]))
        if self.fail:
            raise OSError(self.fail)


@pytest.fixture
def controlled(tmp_path):
    """A running controller with its store and logs; the same data each time it is entered."""

    @asynccontextmanager
    async def run(logs=None, cluster_id=None, broker=BROKER, **config):
        store = await LocalStore.open(tmp_path / "coordination.db")
        try:
            controller = Controller(
                store, broker, BrokerConfig(**config), logs or Logs(), cluster_id=cluster_id, pick_start=lambda n: 0
            )
            if logs:
                logs.controller = controller
            await controller.start()
            yield controller
            await controller.stop()
        finally:
            await store.close()

    return run


async def tree_of(controller):
    return {path: node.data for path, node in (await controller._store.subtree("/")).items()}


def test_the_first_start_writes_the_nodes_that_the_texts_name(controlled):
    async def story():
        async with controlled() as controller:
            tree = await tree_of(controller)
            assert json.loads(tree["/cluster/id"])["id"] == controller.image.cluster_id
            assert len(controller.image.cluster_id) == 22
            assert json.loads(tree["/controller"])["brokerid"] == 7
            assert tree["/controller_epoch"] == b"1"
            registered = json.loads(tree["/brokers/ids/7"])
            assert registered["endpoints"] == ["PLAINTEXT://localhost:9092", "SIX://[::1]:9093"]
            assert (registered["host"], registered["port"], registered["rack"]) == ("localhost", 9092, "r1")
            assert controller.image.brokers == {7: BROKER}
            assert controller.image.controller_id == 7

    asyncio.run(story())


def test_a_restart_keeps_the_cluster_id_and_raises_the_epoch(controlled):
    async def story():
        async with controlled(cluster_id="given") as controller:
            assert (controller.image.cluster_id, controller.epoch) == ("given", 1)
        for wanted, epoch in ((None, 2), ("given", 3)):
            async with controlled(cluster_id=wanted) as controller:
                assert (controller.image.cluster_id, controller.epoch) == ("given", epoch)
        with pytest.raises(ClusterIdMismatch, match="belongs to cluster given, not to other"):
            async with controlled(cluster_id="other"):
                pass

    asyncio.run(story())


def test_a_created_topic_is_in_the_image_and_in_the_store_as_kafka_writes_it(controlled):
    async def story():
        async with controlled() as controller:
            (result,) = await controller.create_topics([NewTopic("t", 2, configs={"retention.ms": "9"})])
            topic = controller.image.topics["t"]
            assert result.image == topic
            assert controller.image.topics_by_id[topic.id] is topic
            tree = await tree_of(controller)
            node = json.loads(tree["/brokers/topics/t"])
            assert node["partitions"] == {"0": [7], "1": [7]}
            assert len(node["topic_id"]) == 22
            assert json.loads(tree["/config/topics/t"]) == {"version": 1, "config": {"retention.ms": "9"}}
            state = json.loads(tree["/brokers/topics/t/partitions/1/state"])
            assert state == {"version": 1, "controller_epoch": 1, "leader": 7, "leader_epoch": 0, "isr": [7]}

    asyncio.run(story())


def test_topics_survive_a_restart_unchanged(controlled):
    async def story():
        async with controlled() as controller:
            await controller.create_topics([NewTopic("a", 12), NewTopic("b", 1, configs={"cleanup.policy": "compact"})])
            before = dict(controller.image.topics)
        logs = Logs()
        async with controlled(logs) as controller:
            assert controller.image.topics == before
            assert set(controller.image.topics_by_id) == {topic.id for topic in before.values()}
            assert logs.changes == []

    asyncio.run(story())


def test_the_image_shows_a_topic_only_once_its_logs_are_open(controlled):
    async def story():
        seen = []

        async def on_change(change):
            seen.append(dict(controller.image.topics))

        async with controlled(on_change) as controller:
            await controller.create_topics([NewTopic("t")])
            assert seen == [{}]
            assert "t" in controller.image.topics
            await controller.delete_topics(["t"])
            assert seen == [{}, {}], "and hides it before they are removed"

    asyncio.run(story())


def test_validate_only_changes_nothing(controlled):
    async def story():
        logs = Logs()
        async with controlled(logs) as controller:
            before = await tree_of(controller)
            results = await controller.create_topics([NewTopic("t", 3), NewTopic("a b")], validate_only=True)
            assert [result.error_code for result in results] == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]
            assert len(results[0].image.partitions) == 3
            assert await tree_of(controller) == before
            assert (logs.changes, controller.image.topics) == ([], {})

    asyncio.run(story())


def test_of_many_creations_of_one_topic_at_once_exactly_one_succeeds(controlled):
    async def story():
        async with controlled() as controller:
            results = await asyncio.gather(*(controller.create_topics([NewTopic("t")]) for _ in range(20)))
            codes = [result.error_code for (result,) in results]
            assert codes.count(ErrorCode.NONE) == 1
            assert codes.count(ErrorCode.TOPIC_ALREADY_EXISTS) == 19

    asyncio.run(story())


def test_a_topic_whose_logs_cannot_be_opened_is_taken_back(controlled):
    async def story():
        logs = Logs()
        async with controlled(logs) as controller:
            before = await tree_of(controller)
            logs.fail = "no space"
            (good, bad) = await controller.create_topics([NewTopic("t"), NewTopic("a b")])
            assert good.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "no space" in good.message
            assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
            assert controller.image.topics == {}
            assert logs.changes == [(["t"], []), ([], ["t"])]
            # the logs could not be removed either, so the deletion is left for the next start
            (again,) = await controller.create_topics([NewTopic("t")])
            assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            assert controller.create_in_background(["t"]) == {"t": ErrorCode.LEADER_NOT_AVAILABLE}
        logs = Logs()
        async with controlled(logs) as controller:
            assert logs.changes == [([], ["t"])]
            after = await tree_of(controller)
            assert set(after) == set(before)

    asyncio.run(story())


def test_more_partitions_are_stored_with_their_states_and_the_logs_are_asked_first(controlled):
    async def story():
        logs = Logs()
        async with controlled(logs) as controller:
            await controller.create_topics([NewTopic("t", 1)])
            (grown,) = await controller.create_partitions([NewPartitions("t", 3)])
            assert grown.error_code == ErrorCode.NONE
            assert logs.grown == [("t", 1, 3, 1)]  # its name, partitions before and after, those shown meanwhile
            tree = await tree_of(controller)
            assert json.loads(tree["/brokers/topics/t"])["partitions"] == {"0": [7], "1": [7], "2": [7]}
            assert json.loads(tree["/brokers/topics/t/partitions/2/state"])["leader"] == 7
        async with controlled() as controller:
            assert len(controller.image.topics["t"].partitions) == 3

    asyncio.run(story())


def test_partitions_whose_logs_cannot_be_opened_are_taken_back(controlled):
    async def story():
        logs = Logs()
        async with controlled(logs) as controller:
            await controller.create_topics([NewTopic("t", 2)])
            before = await tree_of(controller)
            logs.fail = "no space"
            (refused,) = await controller.create_partitions([NewPartitions("t", 5)])
            assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "no space" in refused.message
            assert len(controller.image.topics["t"].partitions) == 2
            assert await tree_of(controller) == before

    asyncio.run(story())


def test_deleting_removes_the_logs_then_every_node(controlled):
    async def story():
        logs = Logs()
        async with controlled(logs) as controller:
            before = await tree_of(controller)
            await controller.create_topics([NewTopic("t", 3), NewTopic("tt"), NewTopic("kept")])
            id_tt = controller.image.topics["tt"].id
            results = await controller.delete_topics(["t", id_tt, "nope"])
            assert [result.error_code for result in results] == [
                ErrorCode.NONE,
                ErrorCode.NONE,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ]
            assert logs.changes[1:] == [([], ["t", "tt"])]
            assert set(controller.image.topics) == {"kept"}
            left = {path for path in await tree_of(controller) if "kept" not in path}
            assert left == set(before)
            (again,) = await controller.create_topics([NewTopic("t")])
            assert again.error_code == ErrorCode.NONE

    asyncio.run(story())


def test_deletion_can_be_switched_off(controlled):
    async def story():
        async with controlled(delete_topic_enable=False) as controller:
            await controller.create_topics([NewTopic("t")])
            (result,) = await controller.delete_topics(["t"])
            assert result.error_code == ErrorCode.TOPIC_DELETION_DISABLED
            assert "t" in controller.image.topics

    asyncio.run(story())


def test_a_deletion_cut_short_by_a_crash_is_finished_at_the_next_start(controlled):
    async def story():
        logs = Logs()
        async with controlled(logs) as controller:
            before = await tree_of(controller)
            await controller.create_topics([NewTopic("t", 2)])
            logs.fail = "crash"
            await controller.delete_topics(["t"])
            assert "/admin/delete_topics/t" in await tree_of(controller)
            assert "t" not in controller.image.topics
        logs = Logs()
        async with controlled(logs) as controller:
            assert logs.changes == [([], ["t"])]
            assert controller.image.topics == {}
            assert set(await tree_of(controller)) == set(before)
            assert (await controller.create_topics([NewTopic("t")]))[0].error_code == ErrorCode.NONE

    asyncio.run(story())


def test_a_store_that_cannot_write_refuses_the_topics_and_goes_on(controlled, monkeypatch):
    async def story():
        async with controlled() as controller:
            real = controller._store.multi

            async def full(operations):
                raise StoreError("database or disk is full")

            await controller.create_topics([NewTopic("old")])
            monkeypatch.setattr(controller._store, "multi", full)
            (result,) = await controller.create_topics([NewTopic("t")])
            assert (result.error_code, result.image) == (ErrorCode.KAFKA_STORAGE_ERROR, None)
            (result,) = await controller.delete_topics(["old"])
            assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert set(controller.image.topics) == {"old"}
            monkeypatch.setattr(controller._store, "multi", real)
            assert (await controller.create_topics([NewTopic("t")]))[0].error_code == ErrorCode.NONE

    asyncio.run(story())


def test_creation_in_the_background_answers_at_once_and_creates_once(controlled):
    async def story():
        logs = Logs()
        async with controlled(logs, num_partitions=3) as controller:
            told = controller.create_in_background(["a", "b", "a b", "__consumer_offsets"])
            assert told == {
                "a": ErrorCode.LEADER_NOT_AVAILABLE,
                "b": ErrorCode.LEADER_NOT_AVAILABLE,
                "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
                "__consumer_offsets": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }
            assert controller.create_in_background(["a"]) == {"a": ErrorCode.LEADER_NOT_AVAILABLE}
            assert controller.image.topics == {}
            await controller.stop()
            assert logs.changes == [(["a", "b"], [])]
            assert len(controller.image.topics["a"].partitions) == 3

    asyncio.run(story())


def test_creation_in_the_background_says_when_replication_is_impossible(controlled):
    async def story():
        async with controlled(default_replication_factor=3) as controller:
            told = controller.create_in_background(["a"])
            assert told == {"a": ErrorCode.INVALID_REPLICATION_FACTOR}

    asyncio.run(story())


def test_a_topic_of_a_thousand_partitions_is_made_quickly(controlled):
    async def story():
        async with controlled() as controller:
            began = perf_counter()
            (result,) = await controller.create_topics([NewTopic("wide", 1000)])
            assert perf_counter() - began < 2  # about 0.03 s alone; a machine may be busy
            assert len(result.image.partitions) == 1000
        async with controlled() as controller:
            assert controller.image.topics["wide"] == result.image

    asyncio.run(story())


def test_producer_id_blocks_follow_each_other_across_restarts(controlled):
    async def story():
        async with controlled() as controller:
            assert await controller.allocate_producer_ids() == (0, 1000)
            assert await controller.allocate_producer_ids() == (1000, 1000)
            blocks = await asyncio.gather(*(controller.allocate_producer_ids() for _ in range(5)))
            assert sorted(first for first, _ in blocks) == [2000, 3000, 4000, 5000, 6000]
        async with controlled() as controller:
            assert await controller.allocate_producer_ids() == (7000, 1000)
            node = json.loads((await tree_of(controller))["/latest_producer_id_block"])
            assert node == {"version": 1, "broker": 7, "block_start": "7000", "block_end": "7999"}

    asyncio.run(story())


# A child that creates and deletes topics and takes producer ids for ever, and says what was acknowledged.
WORKER = """
import asyncio, sys
from ottla.config.broker import BrokerConfig
from ottla.controller.controller import Controller
from ottla.controller.growth import NewPartitions
from ottla.controller.image import BrokerInfo
from ottla.controller.topics import NewTopic
from ottla.coordination.local import LocalStore

async def main(path, round):
    async def on_change(change):
        pass
    store = await LocalStore.open(path)
    controller = Controller(store, BrokerInfo(0, None, {}), BrokerConfig(), on_change)
    await controller.start()
    print("open", flush=True)
    count = 0
    while True:
        count += 1
        name = f"t-{round}-{count}"
        (made,) = await controller.create_topics([NewTopic(name, 3, configs={"retention.ms": "1000"})])
        assert made.error_code == 0, made
        print("made", name, made.image.id.hex(), flush=True)
        first, _ = await controller.allocate_producer_ids()
        print("ids", first, flush=True)
        if count % 3 == 0:
            print("deleting", name, flush=True)
            await controller.delete_topics([name])
            print("deleted", name, flush=True)

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def test_kill_9_leaves_every_topic_whole_or_absent_and_no_producer_id_twice(controlled, tmp_path):
    """Acknowledged topics are there, deleted ones are not; the rest is whole either way."""

    async def look():
        async with controlled() as controller:
            return dict(controller.image.topics), await tree_of(controller)

    dice = Random(11)
    made, blocks = {}, []
    for attempt in range(15):
        command = [sys.executable, "-c", WORKER, tmp_path / "coordination.db", str(attempt)]
        doubtful = None
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout.readline() == "open\n"
            sleep(dice.uniform(0, 0.04))  # the moment of death, not a wait for anything
            child.send_signal(signal.SIGKILL)
            for line in child.stdout:
                if not line.endswith("\n"):
                    break
                match line.split():
                    case ["made", name, id]:
                        made[name] = bytes.fromhex(id)
                    case ["ids", first]:
                        blocks.append(int(first))
                    case ["deleting", name]:
                        doubtful = (name, made.pop(name))
                    case ["deleted", name]:
                        doubtful = None
        topics, tree = asyncio.run(look())
        for name, id in made.items():
            assert topics[name].id == id
        extra = set(topics) - set(made)
        assert len(extra) <= 1, "only the topic in hand may be more than was acknowledged"
        if doubtful and doubtful[0] in topics:
            assert topics[doubtful[0]].id == doubtful[1]
        for topic in topics.values():
            assert topic.configs == {"retention.ms": "1000"}
            assert len(topic.partitions) == 3
        assert {path.split("/")[3] for path in tree if path.startswith("/config/topics/")} == set(topics)
        assert not [path for path in tree if path.startswith("/admin/delete_topics/")]
        made = {name: topic.id for name, topic in topics.items()}
    assert len(set(blocks)) == len(blocks) > 0
