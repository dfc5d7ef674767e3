"""What of the Spark benchmark needs no Spark; tests/spark/test_bench_spark.py runs it."""

from __future__ import annotations

import subprocess
import sys

from testbed.bench.spark import usable_cores


def test_this_process_may_run_somewhere() -> None:
    assert usable_cores() >= 1


def test_the_list_of_benchmarks_is_there_without_pyspark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import testbed.bench.catalog"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
