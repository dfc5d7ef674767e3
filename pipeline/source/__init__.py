"""Reads topics into Spark, as batches and as streams.

`options.py` parses the options, `offsets.py` has the JSON of offsets, `planner.py` finds the ranges to read and
`ranges.py` divides them into tasks. On an executor `queue_reader.py` fetches a range and `columns.py` decodes it:
`located.py` finds the fields of messages of the usual form, `records.py` unpacks the others. `reader.py` and
`stream.py` have the classes that Spark calls; `pushdown.py` applies filters, `progress.py` commits offsets for
monitoring, `lag.py` computes the lag.

`pipeline/data_source.py` uses the readers, jobs use `resolve_offsets` and `progress`.
"""
