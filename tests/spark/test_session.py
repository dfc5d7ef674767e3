"""The session on what this machine has."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

import pyspark
import pytest
from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from model.errors import ConfigError
from pipeline.spark.class_archive import archive_path
from pipeline.spark.java import ensure_java
from pipeline.spark.session import keep_texts, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.process]


def test_the_workers_of_a_session_run_this_interpreter_and_what_is_installed_in_it(spark: SparkSession) -> None:
    columns = "executable string, has_project boolean, pyspark string, is_ready boolean, is_quick boolean"
    rows = spark.range(1).mapInPandas(_interpreter, columns).collect()
    # Not that of Spark's zip, which each worker would compile anew; and what reads topics was imported by its parent.
    assert [tuple(row) for row in rows] == [(sys.executable, True, pyspark.__file__, True, True)]
    assert "SPARK_HOME" not in os.environ, "what was set for the JVM is not left to other processes"


def _interpreter(frames):  # type: ignore[no-untyped-def]
    import gc  # noqa: PLC0415 - runs in a worker
    import importlib.util  # noqa: PLC0415

    import pyspark as imported  # noqa: PLC0415

    for frame in frames:
        frame["executable"] = sys.executable
        frame["has_project"] = importlib.util.find_spec("pipeline.spark.session") is not None
        frame["pyspark"] = imported.__file__
        frame["is_ready"] = "pipeline.sink.writer" in sys.modules
        frame["is_quick"] = gc.get_freeze_count() > 0  # no search for garbage among what was imported
        yield frame[["executable", "has_project", "pyspark", "is_ready", "is_quick"]]


def test_a_session_that_runs_is_taken_as_it_is_and_left_running(spark: SparkSession) -> None:
    with spark_session("another", master="local[7]") as again:
        assert again is spark
    assert spark.range(3).count() == 3
    assert spark.sparkContext.master == "local[2]"


def test_a_session_maps_the_archive_of_classes_if_there_is_one(spark: SparkSession) -> None:
    archive = archive_path(ensure_java())
    assert spark._jvm is not None
    own = spark._jvm.ProcessHandle.current().pid()
    mapped = Path(f"/proc/{own}/maps")
    if mapped.exists():
        assert (str(archive) in mapped.read_text()) == archive.exists()


def test_errors_of_spark_are_printed_without_a_jvm_also_those_that_others_came_from(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        try:
            spark.sql("select nothing")
        except AnalysisException as error:
            raise ConfigError("the job failed") from error

    with pytest.raises(ConfigError) as caught:
        fail()
    keep_texts(caught.value)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    reported = "".join(traceback.format_exception(caught.value))
    assert "captured.AnalysisException: [UNRESOLVED_COLUMN.WITHOUT_SUGGESTION] A column" in reported
    assert "str() failed" not in reported
    assert isinstance(caught.value.__cause__, AnalysisException)
    assert caught.value.__cause__.getCondition() == "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION"
