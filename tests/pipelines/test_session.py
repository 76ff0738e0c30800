from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

ON_SPARK = pytest.mark.xdist_group("spark")


@ON_SPARK
def test_a_session_has_the_kafka_connector_and_our_own_classes(spark: SparkSession) -> None:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:9").option("subscribe", "t")
    assert "offset" in reader.load().columns
    assert spark._jvm.ottla.Classes.present() is True


def test_pytest_imports_spark_only_for_tests_that_use_it() -> None:
    code = "import sys, pytest; pytest.main(['tests/config', '--co', '-q']); print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "False"
