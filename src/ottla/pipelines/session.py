"""The one way to get a Spark session, with the settings that pipelines want."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from ottla.pipelines import jars

CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True, slots=True)
class Settings:
    master: str = "local[*]"
    name: str = "ottla"
    quick: bool = False  # for tests and short jobs: the JVM's first compiler only
    extra: Mapping[str, str] = field(default_factory=dict)


def session(settings: Settings = Settings()) -> SparkSession:  # noqa: B008
    """The process's Spark session, started if there is none yet."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(settings.master).appName(settings.name)
    for key, value in {**_defaults(settings), **settings.extra}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _defaults(settings: Settings) -> dict[str, str]:
    options = "-XX:TieredStopAtLevel=1" if settings.quick else ""
    return {
        "spark.jars": ",".join(str(jar) for jar in [*jars.connector(), jars.own()]),
        "spark.driver.extraJavaOptions": options,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.adaptive.enabled": "false",
    }
