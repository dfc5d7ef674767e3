"""Writes DataFrames to topics, at least once or exactly once.

`options.py` parses the options, `rows.py` checks and encodes rows, whole columns at a time with `packing.py`, and
`targets.py` decides the broker and queue of each. On an executor `task.py` sends a partition through
`broker_pipeline.py`; `writer.py` has the classes that Spark calls and commits a batch on the driver.

`pipeline/data_source.py` is the only user.
"""
