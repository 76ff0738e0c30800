"""The one way to get a Spark session, with the settings that pipelines want.

There is one in a process. Its JVM is started by Spark's own spark-submit (jvm_process.py), so any master will do, and
spark-env.sh and spark-defaults.conf hold; it ends with the process, or by `close()`.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from ottla.pipelines import archive, jars, jvm_process
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.requirements import java, spark_home
from ottla.pipelines.scratch import Scratch

CHECKPOINTS = "ottla.Checkpoints"  # jvm/Checkpoints.scala
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
LOG = jars.SOURCES / "log4j2.properties"
LETTERS = "-Duser.language=en"  # so that I is the upper case of i wherever the machine is
SHUFFLE_PARTITIONS = 8  # on a cluster, whose size is not known here
LONGEST_SOCKET_DIRECTORY = 60  # a Unix socket's path has at most 104 characters, of which Spark needs 43
MASTER_PATIENCE = 5.0  # seconds until a master must have taken a connection


@dataclass(frozen=True, slots=True)
class Settings:
    """master: any master URL of Spark.
    quick: for tests and short jobs; the JVM starts sooner, and is slower in the long run.
    log: the lowest level that is logged; below ERROR also what is raised to the caller anyway.
    extra: settings of Spark, which go before ours; jars are added to ours.
    """

    master: str = "local[*]"
    name: str = "ottla"
    quick: bool = False
    log: str = field(default_factory=lambda: os.environ.get("OTTLA_SPARK_LOG", "ERROR"))
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def is_chatty(self) -> bool:
        """Whether what is raised is logged, too."""
        return self.log.upper() not in ("ERROR", "FATAL", "OFF")


def session(settings: Settings = Settings()) -> SparkSession:  # noqa: B008
    """The process's Spark session, started if there is none yet."""
    jvm = jvm_process.current()
    running = SparkContext._active_spark_context
    if running is not None:
        return _join(running, settings)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    address = "127.0.0.1" if settings.is_local else _reach(settings.master)
    classes, our_jars = archive.found(java(), spark_home()), jars.all_jars()
    scratch = jvm.scratch if jvm else Scratch()
    wanted = {
        **_defaults(settings, scratch.path),
        **_addresses(address),
        **settings.extra,
        "spark.jars": ",".join([*map(str, our_jars), *filter(None, [settings.extra.get("spark.jars")])]),
        "spark.driver.defaultJavaOptions": " ".join(_java_options(settings, scratch.path, classes)),
    }
    conf = SparkConf(loadDefaults=False).setMaster(settings.master).setAppName(settings.name)
    conf.setAll(list(wanted.items()))
    jvm = jvm or jvm_process.launch(conf, scratch, {"SPARK_LOCAL_IP": address} if address else {})
    try:
        with _keeping_interrupts():
            context = SparkContext(conf=conf, gateway=jvm.gateway)
        jvm.gateway.jvm.ottla.HadoopSettings.lighten(context._jsc.hadoopConfiguration())
        _say_once(settings)
        return SparkSession.builder.getOrCreate()
    except (Py4JError, PySparkException, OSError) as error:
        raise PipelineError(f"Spark does not start on {settings.master}: {_reason(error)}") from error


def close(patience: float = jvm_process.PATIENCE) -> None:
    """End the session and its JVM, and wait for that."""
    if (jvm := jvm_process.current()) is not None:
        jvm.end(patience)


def _join(running: SparkContext, settings: Settings) -> SparkSession:
    try:
        running._jvm.ottla.Classes.present()  # type: ignore[union-attr]
    except TypeError as error:  # what py4j says of a class that is not there
        raise PipelineError(
            "this process has a Spark session without ottla's jars already: "
            "get it by ottla.pipelines.session.session(), or stop it first"
        ) from error
    there = str(running.master)
    if settings.master != there and not (settings.is_local and there.startswith("local")):
        raise PipelineError(
            f"this process has a Spark session on {there} already, so there can be none on {settings.master}: "
            "stop it first, or ask for the same master"
        )
    spark = SparkSession.builder.getOrCreate()
    for key, value in settings.extra.items():
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)
    return spark


@contextmanager
def _keeping_interrupts() -> Iterator[None]:
    """Spark's own handler asks the JVM to cancel all jobs, in the midst of what else is said to the JVM."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():  # None: it is not Python's
            signal.signal(signal.SIGINT, before)


def _say_once(settings: Settings) -> None:
    """PySpark also logs what it raises, with the JVM's stack."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = not settings.is_chatty


def _reach(master: str) -> str | None:
    """Our own address as the master sees it; None for masters that are not found by address."""
    if not master.startswith("spark://"):
        return None
    reason = "not an address"
    for host, port in re.findall(r"([^,/]+):(\d+)(?:,|$)", master.removeprefix("spark://")):
        try:
            with socket.create_connection((host.strip("[]"), int(port)), MASTER_PATIENCE) as connection:
                return str(connection.getsockname()[0])
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
    raise PipelineError(
        f"no Spark master answers at {master} ({reason}): start it there, or name another; "
        "without a master everything runs in this process"
    )


def _addresses(address: str | None) -> dict[str, str]:
    """So that nothing depends on whether this machine can resolve its own name."""
    if address is None or "SPARK_LOCAL_IP" in os.environ:
        return {}
    return {"spark.driver.host": address, "spark.driver.bindAddress": address}


def _defaults(settings: Settings, scratch: Path) -> dict[str, str]:
    between_stages = (
        {}
        if not settings.is_local
        else {
            "spark.shuffle.compress": "false",  # it stays on this machine, mostly in memory
            "spark.shuffle.spill.compress": "false",
            "spark.shuffle.checksum.enabled": "false",
        }
    )
    return {
        **between_stages,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(_slots(settings.master) or SHUFFLE_PARTITIONS),
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.python.unix.domain.socket.enabled": str(len(str(scratch)) <= LONGEST_SOCKET_DIRECTORY).lower(),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.icu.caseMappings.enabled": "false",  # upper and lower by Java: ICU takes a second to wake up
        "spark.executor.defaultJavaOptions": LETTERS,
        "spark.sql.extensions": "org.apache.spark.sql.ottla.Extensions",  # jvm/Late.scala
        # Where in Python a column was made is not shown, and would be more than half of what Python says to the JVM.
        "spark.python.sql.dataFrameDebugging.enabled": str(settings.is_chatty).lower(),
        "spark.sql.dataFrameQueryContext.enabled": str(settings.is_chatty).lower(),
    }


def _java_options(settings: Settings, scratch: Path, classes: Path | None) -> list[str]:
    options = [
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlog4j2.configurationFile={LOG.as_uri()}",
        f"-Dottla.log={settings.log}",
        "-Xlog:disable",  # the JVM's own warnings, which it writes to stdout
        "-Xlog:all=error:stderr",
        LETTERS,
    ]
    if settings.is_chatty:
        options.append(f"-Dottla.log.raised={settings.log}")
    if settings.quick:
        # With one compiler the JVM keeps 48 MB for code, which a long run of tests fills.
        options += ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC"]
    else:
        options.append("-XX:+UseParallelGC")  # a batch is worth more than short pauses: G1 takes a sixth more time
    if classes is not None:
        options.append(f"-XX:SharedArchiveFile={classes}")
    return [f'"{option}"' for option in options]


def _slots(master: str) -> int | None:
    """How many tasks run at once, where the master says so."""
    found = re.match(r"local(?:\[(\d+|\*)|$)", master)
    if found is None:
        return None
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)


def _reason(error: Exception) -> str:
    said = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
    return said.strip().partition("\n")[0]
