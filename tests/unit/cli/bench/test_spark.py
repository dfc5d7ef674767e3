"""What of the Spark benchmark needs no Spark; tests/spark/test_bench_spark.py runs it."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from cli.bench.spark import percentile, usable_cores

FIGURES = st.lists(st.floats(0, 1e6), min_size=1).map(sorted)


@given(FIGURES, st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_figure_that_this_share_does_not_exceed(
    ordered: list[float], share: float
) -> None:
    found = percentile(ordered, share)
    assert sum(one <= found for one in ordered) >= share * len(ordered)
    assert sum(one < found for one in ordered) < share * len(ordered)


def test_this_process_may_run_somewhere() -> None:
    assert usable_cores() >= 1


def test_the_list_of_benchmarks_is_there_without_pyspark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import cli.bench.catalog"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
