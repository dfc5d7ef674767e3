"""A Spark cluster of processes: a standalone master and one worker, from the classes that pyspark brings."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from pipeline.spark.class_archive import archive_home, archive_options, archive_path
from pipeline.spark.java import ensure_java
from tests.spark.quick_start import QUICK_START
from tests.tcp.rlab_process import environment, wait_until


@contextmanager
def standalone_master(cwd: Path, *, cores: int) -> Iterator[str]:
    """Run both as long as the block; yields the address of the master, which has given so many cores to its worker."""
    java = ensure_java()
    with (
        _daemon(cwd, java, "master.Master", "--port", "0") as master,
        # For the worker there is room for an executor of 1 GB on each core, whatever this machine has.
        _daemon(
            *(cwd, java, "worker.Worker", "-c", str(cores), "-m", f"{cores}g", "-d", str(cwd / "work")),
            _said(master, r"Starting Spark master at (\S+)"),
        ) as worker,
    ):
        _said(worker, r"(Successfully registered) with master")
        yield _said(master, r"Starting Spark master at (\S+)")


@contextmanager
def _daemon(cwd: Path, java: str, name: str, *arguments: str) -> Iterator[Path]:
    """Yields the file with what it says."""
    said = cwd / f"{name}.log"
    # From the archive of Spark's classes, if there is one, and so do the executors that the worker starts.
    archive = archive_path(java)
    home = archive_home(archive) if archive.exists() else Path(pyspark.__file__).parent
    env = environment(
        **QUICK_START,
        JAVA_HOME=str(Path(java).parents[1]),
        SPARK_HOME=str(home),
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_DAEMON_JAVA_OPTS=archive_options(java),
        SPARK_MASTER_OPTS="-Dspark.master.rest.enabled=false",  # its port is a fixed one
    )
    command = [
        "bash",
        str(home / "bin" / "spark-class"),
        f"org.apache.spark.deploy.{name}",
        "--host",
        "127.0.0.1",
        "--webui-port",
        "0",
    ]
    with said.open("w") as log:
        process = subprocess.Popen([*command, *arguments], stdout=log, stderr=log, env=env, start_new_session=True)
    try:
        yield said
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def _said(log: Path, pattern: str) -> str:
    wait_until(lambda: re.search(pattern, log.read_text()) is not None)
    found = re.search(pattern, log.read_text())
    assert found is not None
    return found[1]
