"""A SPARK_HOME for sessions on this machine, whose Python workers start sooner than those of pip's.

Spark puts `python/lib/pyspark.zip` of its home first on the import path of every Python worker, and Python keeps no
compiled code of what is in a zip: each of the eight processes that a stream starts would compile pyspark anew, for most
of a second. In a home without the zip they import the pyspark that is installed, which is the same. A `local-cluster`
also writes into its home, which there is no setting for: here that goes when the session goes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def home_without_zip(work_dir: Path) -> Iterator[None]:
    """Let a JVM that starts within the block have such a home, below `work_dir`; pyspark must be installed.

    A SPARK_HOME that is set stays. So does the zip when PYSPARK_PYTHON names another interpreter than this one: it need
    not have pyspark.
    """
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415

    if "SPARK_HOME" in os.environ or os.environ.get("PYSPARK_PYTHON") != sys.executable:
        yield
        return
    home, installed = work_dir / "spark-home", Path(_find_spark_home())
    home.mkdir(exist_ok=True)
    for name in ("bin", "conf", "jars"):
        if (installed / name).exists() and not (home / name).exists():
            (home / name).symlink_to(installed / name)
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        # The folder ends with the session; the next one in this process makes its own.
        del os.environ["SPARK_HOME"]
