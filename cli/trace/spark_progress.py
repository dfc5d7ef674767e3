"""Progress of Spark jobs on stderr: finished and all tasks."""

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
def spark_progress(spark: SparkSession, title: str) -> Iterator[None]:
    """Show the progress of a session's jobs while the block runs: on a terminal in one line, else every 10 s.

    The text `title` is printed before the numbers.
    """
    on_terminal = sys.stderr.isatty()
    has_ended = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def show() -> None:
        while not has_ended.wait(_TERMINAL_INTERVAL_S if on_terminal else _LOG_INTERVAL_S):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            known_stages = [stage for stage in stages if stage is not None]
            if not known_stages:
                continue
            done, total = (
                sum(stage.numCompletedTasks for stage in known_stages),
                sum(stage.numTasks for stage in known_stages),
            )
            text = f"{title}: {done} of {total} tasks"
            sys.stderr.write(f"{_CLEAR_LINE}{text}" if on_terminal else f"{text}\n")
            sys.stderr.flush()

    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
        if on_terminal:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
