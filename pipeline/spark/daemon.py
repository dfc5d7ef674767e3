"""Spark's Python daemon, which imports the modules that read and write topics before it forks a worker.

Each of Spark's Python workers is a fork of a daemon, and a query of a topic needs several; the import of this package
and Arrow took a third of a second in each worker. Spark's own daemon imports nothing before it forks, because a thread
that an import starts would be missing in the fork; so Arrow is configured to start no thread.

Only for local masters: an executor elsewhere may not have the package.
"""

from __future__ import annotations

import gc
import os

os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")

import pyarrow.compute  # noqa: F401 - imported for the workers
import pyspark.daemon
import pyspark.sql.pandas.types

import pipeline.data_source
import pipeline.sink.writer  # noqa: F401
from pipeline.python_worker import end_quietly

if __name__ == "__main__":
    end_quietly(pyspark.daemon)
    # A worker collects garbage after each task; a search through all objects imported here took some 20 ms.
    gc.collect()
    gc.freeze()
    pyspark.daemon.manager()
