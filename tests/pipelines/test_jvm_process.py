"""What of a JVM's stderr reaches the user."""

from ottla.pipelines.jvm_process import _telling

STOPPED = [
    b"Traceback (most recent call last):\n",
    b'  File "/x/pyspark/daemon.py", line 95, in worker\n',
    b"BrokenPipeError: [Errno 32] Broken pipe\n",
]
FAILED = [b"Traceback (most recent call last):\n", b'  File "mine.py", line 1\n', b"ValueError: 3\n"]


def test_a_worker_whose_task_was_stopped_says_nothing() -> None:
    assert list(_telling([b"one\n", *STOPPED, *STOPPED, b"two\n"])) == [b"one\n", b"two\n"]


def test_other_traces_and_lines_come_as_they_are() -> None:
    lines = [*FAILED, b"two\n", *FAILED[:2], *FAILED, *FAILED[:1]]
    assert list(_telling(lines)) == lines
