"""Brokers that are killed at a certain place of their own code, so that a test needs no luck to hit it.

    with dying("ottla.storage.relocation:FutureLog.begin", tmp_path):
        broker.start()
    …what leads there…
    await_death(broker)
    broker.start()

Every Python process that is started inside the `with` is killed (SIGKILL) when it comes to that function (`after`: when
that is done). Python imports a module `sitecustomize` at its start, if it finds one; ours stands in a directory of its
own, for which PYTHONPATH is set as long as the `with` lasts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.testing.process import BrokerProcess
from support.waiting import wait_until

CODE = """
import importlib, os, signal

def die():
    os.kill(os.getpid(), signal.SIGKILL)

module, _, name = {place!r}.partition(":")
owner = importlib.import_module(module)
*path, last = name.split(".")
for one in path:
    owner = getattr(owner, one)
found = vars(owner)[last]
work = getattr(found, "__func__", found)

def dying(*arguments, **named):
    if not {after!r}:
        die()
    work(*arguments, **named)
    die()

setattr(owner, last, staticmethod(dying) if isinstance(found, staticmethod) else dying)
"""


@contextmanager
def dying(place: str, directory: Path, *, after: bool = False) -> Iterator[None]:
    """`place` is module:function, or module:class.method; `directory` is where the code for it may be put."""
    code = directory / "mortal" / "sitecustomize.py"
    code.parent.mkdir(exist_ok=True)
    code.write_text(CODE.format(place=place, after=after))
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(code.parent), before)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def await_death(broker: BrokerProcess) -> None:
    wait_until(lambda: not broker.is_running)
    broker.kill()  # lets go of what is left of it
