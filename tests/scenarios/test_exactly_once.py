"""kill -9 of drivers and executors that write exactly once: each record is there once afterwards.

OTTLA_KILLS says how many drivers are killed, and OTTLA_SEED seeds the dice of the random ones. With ten or more an
executor is frozen too, which takes a while: it must first be given up.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from pathlib import Path

import pytest

from ottla.testing import BrokerProcess
from support.copying import Copying
from support.pipeline_topics import Topics
from support.process_tree import send
from support.standalone import Standalone

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark-processes"), pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("OTTLA_KILLS", "3"))
SEED = int(os.environ.get("OTTLA_SEED", "0"))
LONGEST = 2.0  # seconds until a driver is killed at random
TASKS = 3


def within_tasks(copying: Copying, dice: random.Random) -> None:
    """When rows are in the topic and no task has committed."""
    driver = copying.start()
    copying.until(copying.is_idle)
    copying.hold(*range(TASKS))
    copying.feed()
    copying.until_held(0, 1)  # there are two slots
    copying.until(copying.has_uncommitted)
    copying.kill(driver)
    copying.release()


def between_tasks(copying: Copying, dice: random.Random) -> None:
    """When all tasks but one have committed the batch."""
    held = dice.randrange(TASKS)
    driver = copying.start()
    copying.until(copying.is_idle)
    copying.hold(held)
    copying.feed()
    copying.until_held(held)
    copying.until(lambda: copying.written() == set(range(TASKS)) - {held})
    copying.kill(driver)
    copying.release()


def before_the_note(copying: Copying, dice: random.Random) -> None:
    """When all tasks have committed the batch, and the driver has not noted it as done."""
    copying.feed()
    driver = copying.start()
    copying.until(lambda: copying.is_idle() and copying.is_copied())
    copying.kill(driver)
    last = copying.newest("commits")
    for name in (f"{last}", f".{last}.crc"):
        (copying.checkpoint / "commits" / name).unlink(missing_ok=True)


def at_random(copying: Copying, dice: random.Random) -> None:
    """At any moment of the batches that come after what the one before it has left, or of that as well."""
    before = copying.newest("commits")
    driver = copying.start()
    copying.feed()
    if dice.random() < 0.7:
        copying.until(lambda: copying.newest("commits") > before)
    end = time.monotonic() + dice.uniform(0, LONGEST)
    while time.monotonic() < end:
        copying.feed(dice.randrange(3, 1000))
        time.sleep(dice.uniform(0, 0.1))
    copying.kill(driver)


def test_drivers_that_are_killed_leave_each_record_once(ottla_shared_broker: BrokerProcess, tmp_path: Path) -> None:
    dice = random.Random(SEED)
    points = itertools.cycle([between_tasks, before_the_note, at_random, within_tasks, at_random])
    with Copying(Topics(ottla_shared_broker.bootstrap), tmp_path, partitions=TASKS) as copying:
        for kill in itertools.islice(points, KILLS):
            kill(copying, dice)
            begun, written = copying.newest("offsets"), copying.written()
            done = "done" if copying.is_idle() else f"begun, tasks written: {sorted(written)}"
            print(f"{kill.__name__}: {copying.fed} records fed, batch {begun} {done}", flush=True)
        copying.finish()
        assert copying.difference() == (0, 0)


def test_executors_that_are_lost_leave_each_record_once(ottla_shared_broker: BrokerProcess, tmp_path: Path) -> None:
    """One is killed amid a task, one goes with its worker; one may be frozen, and wakes when its task is done."""
    with (
        Standalone(tmp_path) as cluster,
        Copying(
            Topics(ottla_shared_broker.bootstrap),
            tmp_path,
            master=cluster.master,
            settings={**cluster.settings, "spark.cores.max": "2"},
            partitions=TASKS,
        ) as copying,
    ):
        copying.feed()
        driver = copying.start(spare=False)
        copying.until(copying.is_copied)
        first, second = cluster.workers

        copying.hold(*range(TASKS))
        copying.feed()
        copying.until_held(0, 1)
        copying.until(copying.has_uncommitted)
        first.send(signal.SIGKILL, to_executors=True)
        copying.release()
        copying.until(copying.is_copied)

        if KILLS >= 10:
            copying.hold(*range(TASKS))
            copying.feed()
            copying.until(lambda: bool(first.executors))
            copying.until_held(0, 1)
            frozen = first.executors
            send(frozen, signal.SIGSTOP)
            copying.release()
            copying.until(copying.is_copied)
            send(frozen, signal.SIGCONT)

        copying.feed()
        second.kill()
        copying.feed()
        copying.until(copying.is_copied)
        copying.kill(driver)
        assert copying.difference() == (0, 0)
