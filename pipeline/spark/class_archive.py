"""Finds the archive of Spark's classes, which halves the start of Spark's JVMs, and the options to use it.

A JVM of Spark first reads, checks and links some twelve thousand classes. If an archive has the classes of one run
(class data sharing, JEP 350), the next JVM maps them into its memory. `pipeline/spark/make_archive.py` makes the
archive; a JVM that it does not fit, for instance after an update of Java, starts without it and reports nothing.

An archive fits one order of Spark's jar files, so it comes with a folder of them (`pipeline/spark/home.py`), unless
SPARK_HOME names one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_FOLDER = Path(sys.prefix) / "share" / "rebalance-lab"


def archive_options(java: str) -> str:
    """Return the options with which a JVM of Spark uses the archive; empty if this `java` has no archive."""
    archive = archive_path(java)
    return f'"-XX:SharedArchiveFile={archive}" {QUIET}' if archive.exists() else ""


def archive_path(java: str) -> Path:
    """Return the path of the archive for this `java` and this Spark, whether it exists or not."""
    java_home = Path(java).resolve().parents[1]
    release = java_home / "release"  # its text has the version, so an update in place gets a new archive
    version = release.read_bytes() if release.exists() else b""
    jars = sorted((jar.name, jar.stat().st_mtime_ns, jar.stat().st_size) for jar in _jars())
    spark = repr((os.environ.get("SPARK_HOME"), jars)).encode()
    key = hashlib.sha256(bytes(java_home) + version + spark).hexdigest()[:12]
    return _FOLDER / f"spark-classes-{key}" / "spark.jsa"


def archive_home(archive: Path) -> Path:
    """Return the SPARK_HOME that belongs to an archive."""
    return archive.parent / "home"


def archived_jars(java: str) -> Path | None:
    """Return the folder of jars that belongs to the archive for this `java`, if both exist."""
    archive = archive_path(java)
    jars = archive_home(archive) / "jars"
    return jars if archive.exists() and jars.exists() else None


def _jars() -> Iterable[Path]:
    """Return the jars of this environment's Spark; a JVM refuses an archive that was made from other jars."""
    installed = importlib.util.find_spec("pyspark")
    spark_home = os.environ.get("SPARK_HOME") or (installed and installed.origin and Path(installed.origin).parent)
    return () if not spark_home else Path(spark_home, "jars").glob("*.jar")
