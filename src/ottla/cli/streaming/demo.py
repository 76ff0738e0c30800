"""The demo's story: broker, Spark, lines, counts, end. What is seen of it is `demo_screen.py`'s.

The counts are known beforehand, so each line waits until the application has shown all of its words; one that does not
is an error, and the demo says so.
"""

from __future__ import annotations

import ast
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.common.invocation import Failure
from ottla.cli.streaming.demo_screen import Screen, Terminal
from ottla.cli.streaming.embedded_broker import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = Path(__file__).with_name("word_count.py")  # that of examples/streams, by a link
INPUT, OUTPUT = "wordcount-input", "wordcount-output"
LINES = (
    "Hello Kafka, hello Spark",
    "the quick brown fox jumps over the lazy dog",
    "a stream is a table in motion, a table is a stream at rest",
    "every line goes through Kafka, through Spark and back",
    "hello again, lazy dog",
)
LETTER_SECONDS = 0.03
LOOK_SECONDS = 0.05
PATIENCE = 60.0  # seconds until the counts of a line must have come


class Demo:
    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._expected: Counter[str] = Counter()
        self._counts: dict[str, str] = {}

    def run(self, asks: bool) -> None:
        """`asks`: whether somebody sits there who may type lines, too."""
        with suppress(KeyboardInterrupt), _terminated_as_interrupted(), ExitStack() as stack:
            self._start(stack)
            for line in LINES:
                self._type(line)
                self._count(line)
            if asks:
                self._converse()
            self._screen.summary(self._counts)

    # -- what runs -----------------------------------------------------------------------------------------------

    def _start(self, stack: ExitStack) -> None:
        from ottla.cli.streaming.loading import loaded
        from ottla.pipelines import jars
        from ottla.pipelines.requirements import java
        from ottla.pipelines.session import close

        java()
        stack.callback(signal.signal, signal.SIGINT, signal.default_int_handler)
        jars.all_jars()  # shows its own progress where it has to fetch them
        broker = stack.enter_context(EmbeddedBroker())
        self._screen.explain(code(), broker.bootstrap)
        self._clients(stack, broker.bootstrap, INPUT, OUTPUT)
        app = loaded(str(PROGRAM), bootstrap=broker.bootstrap, state_dir=broker.directory / "state")
        with self._screen.waiting("Starting Spark", "Spark runs the application"):
            stack.callback(close)
            spark = _session()
            stack.callback(app.stop)
            self._running = app.start(spark)
        stack.callback(self._screen.still)
        stack.callback(signal.signal, signal.SIGINT, signal.SIG_IGN)  # from here on all ends, which takes its time

    def _clients(self, stack: ExitStack, bootstrap: str, topic: str, results: str) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        servers: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        new = [NewTopic(topic, 1), NewTopic(results, 1, config={"cleanup.policy": "compact"})]
        admin = AdminClient(servers)  # kept: its thread ends with it, and nothing is answered any more
        for future in admin.create_topics(new).values():
            future.result()
        self._topic = topic
        self._producer = Producer({**servers, "linger.ms": 0})
        self._consumer = Consumer({**servers, "group.id": "demo", "enable.auto.commit": False})
        stack.callback(self._consumer.close)
        self._consumer.assign([TopicPartition(results, 0, 0)])

    # -- what happens --------------------------------------------------------------------------------------------

    def _type(self, line: str) -> None:
        """As a person does, letter by letter, where somebody watches."""
        if isinstance(self._screen, Terminal):
            for end in range(1, len(line) + 1):
                self._screen.typing(line[:end])
                time.sleep(LETTER_SECONDS)

    def _count(self, line: str) -> None:
        """Send the line, and show counts until all of its words are counted."""
        self._producer.produce(self._topic, line)
        self._producer.flush(PATIENCE)
        self._screen.typed(line)
        words = {word for word in re.findall(r"\w+", line.lower()) if word != "the"}
        self._expected.update(word for word in re.findall(r"\w+", line.lower()) if word != "the")
        deadline = time.monotonic() + PATIENCE
        while any(self._counts.get(word) != str(self._expected[word]) for word in words):
            self._running.check()
            if time.monotonic() > deadline:
                raise Failure(f"the counts of {line!r} did not come within {PATIENCE:g} s")
            self._look()
        self._screen.settled(self._counts, words)

    def _look(self) -> None:
        changed = set()
        for message in self._consumer.consume(1000, LOOK_SECONDS):
            key, value = message.key(), message.value()
            if message.error() is None and key is not None and value is not None:
                self._counts[key.decode()] = value.decode()
                changed.add(key.decode())
        self._screen.counted(self._counts, changed)

    def _converse(self) -> None:
        """Lines of the person's own, until an empty one."""
        assert isinstance(self._screen, Terminal)
        self._screen.invite()
        with suppress(EOFError):
            while line := self._screen.ask().strip():
                self._count(line)


def code() -> str:
    """What the program does: without what it says of itself at its head, and how it is run."""
    text = PROGRAM.read_text()
    _, *body, main = ast.parse(text).body
    return "\n".join(text.splitlines()[body[0].lineno - 1 : main.lineno - 1]).rstrip() + "\n"


def _session() -> SparkSession:
    from ottla.pipelines.session import Settings, session

    return session(Settings(master="local[2]", name="demo", quick=True, extra={"spark.sql.shuffle.partitions": "1"}))


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM as Ctrl-C, so that nothing is left behind then, either."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
