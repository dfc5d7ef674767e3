"""Progress of a Spark job on stderr: how many tasks of how many are done."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TERMINAL_INTERVAL_S = 0.5
_LOG_INTERVAL_S = 10.0
_CLEAR_LINE = "\r\x1b[K"


@contextmanager
def spark_progress(spark: SparkSession, what: str) -> Iterator[None]:
    """Tell how far the jobs of a session are while the block runs: on a terminal in one line, else seldom.

    Args:
        spark: the session.
        what: a few words in front of the numbers.
    """
    on_terminal = sys.stderr.isatty()
    ended = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def tell() -> None:
        while not ended.wait(_TERMINAL_INTERVAL_S if on_terminal else _LOG_INTERVAL_S):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            known = [stage for stage in stages if stage is not None]
            if not known:
                continue
            done, total = sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
            text = f"{what}: {done} of {total} tasks"
            sys.stderr.write(f"{_CLEAR_LINE}{text}" if on_terminal else f"{text}\n")
            sys.stderr.flush()

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
        if on_terminal:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
