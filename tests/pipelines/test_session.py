from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.clientserver import JavaClient
from pyspark.sql import SparkSession, functions

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.requirements import java
from ottla.pipelines.session import Settings, _java_options, session

# A process with a session, from its start to its end. What it prints is what the test expects.
WHOLE_LIFE = """
import pyarrow
from pyspark import SparkContext
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.session import Settings, close, session

def attempt(act):
    try:
        return act()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"

def same(batches):
    yield from batches

def broken(batches):
    raise ValueError("a user's mistake")

here = Settings(master="local[2]", quick=True)
print(attempt(lambda: session(Settings(master="local[2]", extra={"spark.driver.memory": "much"}))))
print(attempt(lambda: session(Settings(master="spark://127.0.0.1:1"))))

spark = session(here)
print(spark.range(10).mapInArrow(same, "id long").count())
print(session(Settings(extra={"spark.sql.shuffle.partitions": "7"})) is spark)
print(spark.conf.get("spark.sql.shuffle.partitions"))
print(attempt(lambda: session(Settings(master="yarn"))))
print(attempt(lambda: spark.range(10).mapInArrow(broken, "id long").count()).partition(":")[0])
numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
failing = numbers.selectExpr("raise_error('no') AS x").writeStream.format("noop").start()
print(attempt(failing.awaitTermination).partition(":")[0])

spark.stop()
print(attempt(lambda: session(Settings(master="nonsense"))))
print(session(here).range(5).count())
SparkContext._gateway.proc.kill()
SparkContext._gateway.proc.wait()
print(session(here).range(6).count())
"""
SAID = """\
PipelineError: Spark's JVM does not start: Invalid maximum heap size: -Xmxmuch Error: Could not create the Java \
Virtual Machine. Error: A fatal exception has occurred. Program will exit.
PipelineError: no Spark master answers at spark://127.0.0.1:1 (Connection refused): start it there, or name another; \
without a master everything runs in this process
10
True
7
PipelineError: this process has a Spark session on local[2] already, so there can be none on yarn: stop it first, \
or ask for the same master
PythonException
StreamingQueryException
PipelineError: Spark does not start on nonsense: Could not parse Master URL: 'nonsense'
5
6
"""


def test_a_session_has_the_kafka_connector_and_our_own_classes(spark: SparkSession) -> None:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:9").option("subscribe", "t")
    assert "offset" in reader.load().columns
    assert spark._jvm.ottla.Classes.present() is True


def test_hadoops_settings_are_sent_without_their_origins(spark: SparkSession) -> None:
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    assert settings.get("fs.defaultFS") == "file:///"
    assert settings.getPropertySources("fs.defaultFS") is None


def test_letters_are_the_same_wherever_the_machine_is(spark: SparkSession, tmp_path: Path) -> None:
    assert spark.sql("SELECT upper('straße, ıi'), lower('ÄΣ, Iİ')").first() == ("STRASSE, II", "äς, ii̇")
    options = [option.strip('"') for option in _java_options(Settings(), tmp_path, None)]
    words = [str(java().command), *options, "-XshowSettings:locale", "--version"]
    turkish = {**os.environ, "JAVA_TOOL_OPTIONS": "-Duser.language=tr"}
    said = subprocess.run(words, env=turkish, capture_output=True, text=True, check=True)
    assert "default locale = English" in said.stderr


def test_a_process_has_one_session(spark: SparkSession) -> None:
    assert session(Settings(quick=True)) is spark
    with pytest.raises(PipelineError, match=r"already, so there can be none on spark://elsewhere:7077"):
        session(Settings(master="spark://elsewhere:7077"))


def test_a_column_is_one_word_to_the_jvm(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was made is not told, and classes that are known are not asked for again."""
    functions.col("known")
    said = []
    send = JavaClient.send_command
    monkeypatch.setattr(JavaClient, "send_command", lambda self, *words: said.append(words) or send(self, *words))
    functions.col("new")
    monkeypatch.undo()
    assert len(said) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("spark_can_start")
def test_a_session_says_and_leaves_nothing_that_is_not_asked_for(tmp_path: Path) -> None:
    """Also where the machine's name cannot be resolved, which only root can arrange."""
    here, temporary = tmp_path / "here", tmp_path / "tmp"
    here.mkdir()
    temporary.mkdir()
    nameless = ["unshare", "--uts", "sh", "-c", 'hostname no-such-host; exec "$@"', "sh"]
    can = shutil.which("unshare") and subprocess.run([*nameless, "true"], capture_output=True).returncode == 0
    words = [*(nameless if can else []), sys.executable, "-c", WHOLE_LIFE]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(words, cwd=here, env=environment, capture_output=True, text=True, timeout=280)
    assert done.stderr == ""
    assert done.stdout == SAID
    assert list(here.iterdir()) == []
    assert [path.name for path in temporary.iterdir()] == []


@pytest.mark.slow
@pytest.mark.usefixtures("spark_can_start")
def test_a_session_that_is_not_ours_is_refused() -> None:
    code = """
from pyspark.sql import SparkSession
from ottla.pipelines.session import session
SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    session()
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert done.stdout.startswith("PipelineError this process has a Spark session without ottla's jars already: get it")


def test_pytest_imports_spark_only_for_tests_that_use_it() -> None:
    code = "import sys, pytest; pytest.main(['tests/config', '--co', '-q']); print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_a_checkpoint_goes_on_after_its_files_were_written_again(spark: SparkSession, tmp_path: Path) -> None:
    """Also where Hadoop's local file system has written them before, and left files of checksums (.0.crc)."""
    (tmp_path / "in").mkdir()
    checkpoint = tmp_path / "checkpoint"

    def run(text: str) -> list[tuple[str, int]]:
        (tmp_path / "in" / f"{text}.txt").write_text(text)
        lines = spark.readStream.text(str(tmp_path / "in")).groupBy("value").count()
        query = lines.writeStream.outputMode("complete").queryName(f"q{text}").format("memory")
        query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
        return sorted((row["value"], row["count"]) for row in spark.table(f"q{text}").collect())

    assert run("a") == [("a", 1)]
    assert [path.name for path in (checkpoint / "offsets").iterdir()] == ["0"]
    assert list(checkpoint.rglob("*.delta.crc")) == list(checkpoint.rglob("*.changelog.crc")) == []
    (checkpoint / "commits" / "0").unlink()  # the batch is run again, and its note written over what is there
    (checkpoint / "commits" / ".0.crc").write_bytes(b"crc\x00\x00\x00\x02\x00what was there before")
    assert run("b") == [("a", 1), ("b", 1)]
