import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.broker.process import raise_file_limit

SERVER = """
import sys
from ottla.broker.process import StopSignal, run
async def main(stop: StopSignal) -> int:
    print("ready", flush=True)
    await stop.wait()
    print("stopping", flush=True)
    if sys.argv[1] == "hang":
        import asyncio
        await asyncio.Event().wait()
    return int(sys.argv[1])
sys.exit(run(main))
"""


@contextmanager
def start(argument: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", SERVER, argument], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("status", [0, 3])
def test_a_signal_asks_for_a_clean_stop_and_the_result_is_the_status(number: signal.Signals, status: int) -> None:
    with start(str(status)) as process:
        process.send_signal(number)
        assert process.wait(10) == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_a_stop_that_hangs(number: signal.Signals) -> None:
    with start("hang") as process:
        process.send_signal(number)
        assert process.stdout is not None
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(number)
        assert process.wait(10) == 1


def test_the_limit_of_open_files_is_raised_as_far_as_it_goes() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    try:
        assert raise_file_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
