"""The daemon of Spark's Python workers has imported what they need, and can be forked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import os, sys
import pipeline.spark.daemon
print([name in sys.modules for name in ("pipeline.data_source", "pipeline.sink.writer", "pyarrow.compute")])
print(len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 1)
"""


def test_the_imports_are_done_and_no_thread_runs_that_a_fork_would_lose() -> None:
    # As Spark starts it: a worker has one core.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[4])}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines() == ["[True, True, True]", "1"]
