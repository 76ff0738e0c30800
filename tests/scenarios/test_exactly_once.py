"""kill -9 of drivers and executors that write exactly once: each record is there once afterwards, a plain copy or what
state in Python makes of it.

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
from support.numbering import Numbering
from support.pipeline_topics import Topics
from support.process_tree import send
from support.standalone import Standalone

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("spark_can_start"), pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("OTTLA_KILLS", "3"))
SEED = int(os.environ.get("OTTLA_SEED", "1"))
LONGEST = 2.0  # seconds until a driver is killed at random
PARTITIONS = 3
SLOTS = 2  # for tasks, in one driver as well as on two workers

each_kind_of_work = pytest.mark.parametrize("kind", [Copying, Numbering], ids=["copy", "python-state"])


def within_tasks(work: Copying, dice: random.Random) -> None:
    """When rows are in the topic and no task has committed."""
    driver = work.start()
    work.until(work.is_idle)
    work.hold(*work.tasks)
    work.feed()
    work.until_held(SLOTS)
    work.until(work.has_uncommitted)
    work.kill(driver)
    work.release()


def between_tasks(work: Copying, dice: random.Random) -> None:
    """When all tasks but one have committed the batch."""
    held = dice.choice(sorted(work.tasks))
    driver = work.start()
    work.until(work.is_idle)
    work.hold(held)
    work.feed()
    work.until_held(1)
    work.until(lambda: work.written() & work.tasks == work.tasks - {held})
    work.kill(driver)
    work.release()


def before_the_note(work: Copying, dice: random.Random) -> None:
    """When all tasks have committed the batch, and the driver has not noted it as done."""
    work.feed()
    driver = work.start()
    work.until(lambda: work.is_complete() and work.is_idle())
    work.kill(driver)
    last = work.newest("offsets")
    for name in (f"{last}", f".{last}.crc"):
        (work.checkpoint / "commits" / name).unlink(missing_ok=True)


def at_random(work: Copying, dice: random.Random) -> None:
    """At any moment of the batches that come after what the one before it has left, or of that as well."""
    before = work.newest("commits")
    driver = work.start()
    work.feed()
    if dice.random() < 0.7:
        work.until(lambda: work.newest("commits") > before)
    end = time.monotonic() + dice.uniform(0, LONGEST)
    while time.monotonic() < end:
        work.feed(dice.randrange(3, 1000))
        time.sleep(dice.uniform(0, 0.1))
    work.kill(driver)


@each_kind_of_work
def test_drivers_that_are_killed_leave_each_record_once(
    kind: type[Copying], ottla_shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    points = itertools.cycle([between_tasks, before_the_note, at_random, within_tasks, at_random])
    with kind(Topics(ottla_shared_broker.bootstrap), tmp_path, partitions=PARTITIONS) as work:
        for kill in itertools.islice(points, KILLS):
            kill(work, dice)
            begun, written = work.newest("offsets"), work.written()
            done = "done" if work.is_idle() else f"begun, tasks written: {sorted(written)}"
            print(f"{kill.__name__}: {work.fed} records fed, batch {begun} {done}", flush=True)
        work.finish()
        assert work.faults() == []


@each_kind_of_work
def test_executors_that_are_lost_leave_each_record_once(
    kind: type[Copying], ottla_shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    """One is killed amid a task, one goes with its worker; one may be frozen, and wakes when its task is done."""
    with (
        Standalone(tmp_path) as cluster,
        kind(
            Topics(ottla_shared_broker.bootstrap),
            tmp_path,
            master=cluster.master,
            settings={**cluster.settings, "spark.cores.max": "2"},
            partitions=PARTITIONS,
        ) as work,
    ):
        work.feed()
        driver = work.start(spare=False)
        work.until(work.is_complete)
        first, second = cluster.workers

        work.hold(*work.tasks)
        work.feed()
        work.until_held(SLOTS)
        work.until(work.has_uncommitted)
        first.send(signal.SIGKILL, to_executors=True)
        work.release()
        work.until(work.is_complete)

        if KILLS >= 10:
            work.hold(*work.tasks)
            work.feed()
            work.until(lambda: bool(first.executors))
            work.until_held(SLOTS)
            frozen = first.executors
            send(frozen, signal.SIGSTOP)
            work.release()
            work.until(work.is_complete)
            send(frozen, signal.SIGCONT)

        work.feed()
        second.kill()
        work.feed()
        work.until(work.is_complete)
        work.kill(driver)
        assert work.faults() == []
