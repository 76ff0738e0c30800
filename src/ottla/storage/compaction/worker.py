"""The process in which logs are compacted: `python -m ottla.storage.compaction.worker`.

It reads jobs from its standard input and says on its standard output how they go, one JSON object a line:

    in   a Job (compaction.py)
    out  {"group": …}                     a Group is ready, and may be put in place while the work goes on
         {"done": …}                      Totals: the end of a job
         {"failed": KIND, "why": …}       also the end: "uncleanable", "gone" (a file is no more there), "disk" (then
                                          with "errno"), "bug"

The end of its input is the end of it: no broker, no worker. It gives way to other processes, and may be killed at any
moment; files that it leaves behind then end in `.cleaned`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import traceback
from dataclasses import asdict
from typing import Any

from ottla.protocol.errors import ProtocolError
from ottla.storage.compaction.clean import Uncleanable, clean
from ottla.storage.compaction.job import Group, Job

GIVES_WAY = 10  # nice(2)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the broker ends its workers itself
    os.nice(GIVES_WAY)
    for line in sys.stdin:
        say(**work(json.loads(line)))


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Do a job; returns the last thing to say of it."""
    try:
        totals = clean(Job(**job), report)
    except (ProtocolError, Uncleanable) as error:
        return {"failed": "uncleanable", "why": str(error)}
    except FileNotFoundError as error:
        return {"failed": "gone", "why": str(error)}
    except OSError as error:
        return {"failed": "disk", "why": str(error), "errno": error.errno}
    except Exception:
        return {"failed": "bug", "why": traceback.format_exc()}
    totals.peak_memory = peak_memory()
    return {"done": asdict(totals)}


def peak_memory() -> int:
    """The most bytes that this process has had in memory. (getrusage would count what started it.)"""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def report(group: Group) -> None:
    say(group=asdict(group))


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
