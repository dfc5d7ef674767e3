"""Spark homes (SPARK_HOME) for sessions on this machine, in which Python workers and JVMs start faster.

Spark puts `python/lib/pyspark.zip` of its home first on the import path of every Python worker, and Python keeps no
compiled code of modules in a zip: each of the eight processes of a stream would compile pyspark again, for most of a
second. In a home without the zip they import the installed pyspark, which is the same. A `local-cluster` also writes to
its home, and no setting changes that; this home is removed with the session.

Spark's launcher puts slf4j's jar on the class path twice: by name, and with all files in `jars`. Java 21 drops the
second from an archive of classes, then finds it on the class path that has to match, and ignores the archive. In a home
for archives the name of that file does not end in `.jar`: the launcher still finds it, `jars/*` does not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def spark_home_without_zip(work_dir: Path, jars: Path | None = None) -> Iterator[None]:
    """Set such a home, below `work_dir`, for a JVM that starts in the block; pyspark must be installed.

    An existing SPARK_HOME is kept. The zip is kept if PYSPARK_PYTHON is another interpreter, which may have no pyspark.
    `jars` is the folder of jars of an archive's home, if there is one.
    """
    if _is_chosen():
        yield
        return
    home = work_dir / "spark-home"
    _link(home, "bin", "conf")
    (home / "jars").symlink_to(jars or _installed() / "jars")
    with _spark_home(home):
        yield


@contextmanager
def spark_home_for_archive(home: Path) -> Iterator[None]:
    """Like `spark_home_without_zip`, but the home stays, and each of Spark's jars is once on the class path."""
    if _is_chosen():
        yield
        return
    _link(home, "bin", "conf")
    (home / "jars").mkdir()
    for jar in (_installed() / "jars").glob("*.jar"):
        (home / "jars" / (jar.stem if jar.name.startswith("slf4j-api-") else jar.name)).symlink_to(jar)
    with _spark_home(home):
        yield


def _is_chosen() -> bool:
    return "SPARK_HOME" in os.environ or os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable


def _installed() -> Path:
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415 - it needs pyspark

    return Path(_find_spark_home())


def _link(home: Path, *names: str) -> None:
    home.mkdir()
    for name in names:
        if (_installed() / name).exists():
            (home / name).symlink_to(_installed() / name)


@contextmanager
def _spark_home(home: Path) -> Iterator[None]:
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        # The next session in this process sets its own home.
        del os.environ["SPARK_HOME"]
