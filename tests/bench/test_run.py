"""The load generator and a small run against a real broker: what they count is what the broker holds."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.groups import Commits, Groups
from bench.loadgen import LoadGenerator, has_rdkafka
from bench.ottla import Ottla
from bench.process import BenchError, Broker
from bench.restarts import ManyPartitions, Restart
from bench.rounds import NO_WAITING, Plan, Run, stretches
from bench.transactions import Isolation, Transactions
from bench.upkeep import Upkeep
from bench.workloads import Consume, EndToEnd, Produce, Scene, SmallRequests, Workload, standard
from support import group_wire
from support.wire import Wire

ROOT = Path(__file__).resolve().parents[2]

needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="the load generator is C and gcc is not installed here")
needs_rdkafka = pytest.mark.skipif(
    not shutil.which("gcc") or not has_rdkafka(), reason="librdkafka-dev (and gcc) are not installed here"
)
pytestmark = needs_gcc


@pytest.fixture(scope="module")
def generator(tmp_path_factory) -> LoadGenerator:
    return LoadGenerator(tmp_path_factory.mktemp("loadgen"), raw_only=True)


@pytest.fixture
def broker(tmp_path):
    broker = Broker(Ottla(ROOT), tmp_path / "broker", NO_WAITING)
    yield broker
    broker.stop()


@pytest.mark.parametrize("depth", [1, 8])
def test_raw_produce_appends_as_many_records_as_it_counts(generator, broker, depth):
    broker.create_topic("raw", 4)
    printed = generator.run("raw-produce", broker.port, topic="raw", partitions=4, depth=depth, count=1000)
    assert (printed["requests"], printed["errors"]) == (1000, 0)
    assert 0 < printed["p50_us"] <= printed["p99_us"] <= printed["max_us"]
    with broker.admin() as admin:
        ends = [offset for _, offset in admin.offsets("raw", 4)]
    assert sum(ends) == 1000
    assert min(ends) > 0


def test_raw_fetch_gets_a_batch_with_every_reply(generator, broker):
    broker.create_topic("raw", 2)
    generator.run("raw-produce", broker.port, topic="raw", partitions=2, count=16)
    printed = generator.run("raw-fetch", broker.port, topic="raw", partitions=2, count=500)
    assert (printed["requests"], printed["errors"]) == (500, 0)
    assert printed["reply_bytes"] > 500 * 161  # a batch of one record of 100 bytes, and the reply around it


def test_requests_that_the_broker_refuses_are_counted_as_errors(generator, broker):
    broker.create_topic("raw", 1)
    printed = generator.run("raw-produce", broker.port, topic="raw", partitions=2, connections=2, count=10)
    assert (printed["requests"], printed["first_error"]) == (10, 3)
    with broker.admin() as admin:
        assert printed["errors"] == 10 - admin.records("raw", 1) > 0


def test_a_broker_that_is_not_there_is_named(generator):
    with pytest.raises(BenchError, match=r"raw-produce: loadgen: connect 127\.0\.0\.1:1: Connection refused"):
        generator.run("raw-produce", 1, topic="raw", count=1)


def test_a_broker_is_stopped_with_its_data(tmp_path):
    broker = Broker(Ottla(ROOT), tmp_path / "broker")
    assert broker.is_running()
    assert broker.cpu_seconds() > 0
    assert broker.resident_bytes() > 5e6
    broker.stop()
    assert not broker.is_running()
    assert not (tmp_path / "broker").exists()


def test_a_small_run_measures_every_figure_once_per_kept_round(generator, tmp_path):
    workloads = [SmallRequests("produce", "produce", 4, 2, 0.3), SmallRequests("fetch", "fetch", 4, 1, 0.3)]
    plan = Plan(workloads, with_start=False, repeats=2, scale=1, settle=0)
    lines: list[str] = []
    measured = Run([Ottla(ROOT)], plan, generator, tmp_path, lines.append).whole()
    assert measured.failures == []
    once = ("memory.final", "idle.cpu")
    counts = {figure.key: len(measured.values[figure.key]["ottla"]) for figure in measured.figures}
    assert counts == {key: 1 if key in once else 2 for key in counts}
    assert {"produce.rate", "produce.cpu", "produce.p99", "fetch.rate", *once} <= set(counts)
    assert len(lines) == 3 * 2  # two workloads in the discarded round and in two kept ones
    assert list(tmp_path.iterdir()) == []


def test_a_consume_stays_with_the_produce_whose_topic_it_reads():
    groups = [[workload.name for workload in group] for group in stretches(standard())]
    assert ["produce-1k-1p", "consume-1k"] in groups
    assert sum(len(group) for group in groups) == len(standard())
    alone = standard()[1]
    assert stretches([alone]) == [[alone]]


def test_starts_are_measured_on_fresh_brokers(generator, tmp_path):
    plan = Plan([], with_start=True, repeats=1, scale=1, settle=0)
    measured = Run([Ottla(ROOT)], plan, generator, tmp_path, lambda _: None).whole()
    assert measured.failures == []
    assert set(measured.values) == {"start.seconds", "start.partitions", "start.idle"}
    assert 0 < measured.values["start.seconds"]["ottla"][0] < 30


@needs_rdkafka
def test_bulk_workloads_give_their_figures(tmp_path):
    produce = Produce("produce", 100, 1, 2, 20_000)
    workloads = [produce, Consume("consume", produce), EndToEnd("latency", 200, 0.5)]
    plan = Plan(workloads, with_start=False, repeats=1, scale=1, settle=0)
    measured = Run([Ottla(ROOT)], plan, LoadGenerator(tmp_path), tmp_path / "run", lambda _: None).whole()
    assert measured.failures == []
    for key in ("produce.rate", "produce.cpu", "consume.rate", "consume.cpu", "latency.p50", "latency.p999"):
        (value,) = measured.values[key]["ottla"]
        assert value > 0


@needs_rdkafka
def test_restarts_find_every_record_again_and_leave_nothing_behind(tmp_path):
    workloads = [
        Restart("clean", killed=False, count=2000, partitions=3),
        Restart("killed", killed=True, count=2000, partitions=3),
        ManyPartitions("many", topics=2, partitions=20),
    ]
    plan = Plan(workloads, with_start=False, repeats=1, scale=1, settle=0)
    measured = Run([Ottla(ROOT)], plan, LoadGenerator(tmp_path), tmp_path / "run", lambda _: None).whole()
    assert measured.failures == []
    for key in ("clean.seconds", "killed.seconds", "many.start", "many.memory"):
        (value,) = measured.values[key]["ottla"]
        assert value > 0
    assert list((tmp_path / "run").iterdir()) == []


def figures_of(workloads: list[Workload], *where: Any) -> dict[str, float]:
    """Each run once, without the order of a whole run around it."""
    figures: dict[str, float] = {}
    for workload in workloads:
        values = workload.run(Scene(*where, scale=1, tag="once"))
        figures |= {figure.key: values[figure.key] for figure in workload.figures()}
    return figures


def test_groups_become_stable_and_their_members_commit(generator, broker, tmp_path):
    workloads: list[Workload] = [
        Groups("single", groups=20, members=1),
        Groups("one", groups=1, members=20),
        Groups("new", groups=1, members=20, protocol="consumer", passes=1),
        Commits("steady", rate=200, seconds=0.3, members=4),
        Commits("fast", rate=0, seconds=0.3, members=4),
    ]
    figures = figures_of(workloads, broker, generator, tmp_path)
    assert len(figures) == 2 + 2 + 2 + 4 + 2
    assert min(figures.values()) > 0
    assert 0 < figures["steady.rate"] <= 204  # not more than was asked for
    assert figures["fast.rate"] > figures["steady.rate"]


def test_members_of_groups_have_joined_committed_and_left(generator, broker):
    broker.create_topic("group", 3)
    joined = generator.run("raw-groups", broker.port, topic="group", partitions=3, members=3, heartbeat_ms=20)
    assert (joined["groups"], joined["members"]) == (1, 3)
    assert joined["joins"] >= 6  # each is told its id first
    done = generator.run("raw-commits", broker.port, topic="group", partitions=3, connections=3, seconds=0.3)
    assert done["errors"] == 0
    wire = Wire("127.0.0.1", broker.port)
    ((_, _, offset, *_),) = group_wire.fetch(wire, "group-0", ("group", 0), version=9)
    assert 0 < offset < done["requests"]
    assert group_wire.members_of(wire, "group-0") == 0


@needs_rdkafka
def test_transactions_are_counted_and_only_the_committed_ones_are_read(broker, tmp_path):
    workloads: list[Workload] = [
        Transactions("small", records=1, seconds=0.3),
        Isolation("isolation", transactions=20, records=10, passes=1),
    ]
    # the workloads themselves check what the log holds and what was read
    figures = figures_of(workloads, broker, LoadGenerator(tmp_path), tmp_path)
    assert len(figures) == 4 + 3
    assert min(figures.values()) > 0


@needs_rdkafka
def test_upkeep_goes_on_while_the_clock_runs(tmp_path):
    plan = Plan([Upkeep("upkeep", 3)], with_start=False, repeats=1, scale=1, settle=0)
    measured = Run([Ottla(ROOT)], plan, LoadGenerator(tmp_path), tmp_path / "run", lambda _: None).whole()
    assert measured.failures == []  # the workload itself checks that segments were deleted and compacted
    assert 0 < measured.values["upkeep.p50"]["ottla"][0] < measured.values["upkeep.p99"]["ottla"][0]


def test_a_workload_that_fails_is_noted_and_the_run_goes_on(generator, tmp_path):
    bulk, small = Produce("bulk", 100, 1, 1, 1000), SmallRequests("small", "produce", 2, 1, 0.3)
    plan = Plan([bulk, small], with_start=False, repeats=1, scale=1, settle=0)
    measured = Run([Ottla(ROOT)], plan, generator, tmp_path, lambda _: None).whole()
    (failure,) = measured.failures  # this generator was built without librdkafka
    assert failure.startswith("bulk on ottla: produce: loadgen: mode produce needs librdkafka")
    assert len(measured.values["small.rate"]["ottla"]) == 1
