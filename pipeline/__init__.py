"""Spark: topics as DataFrames, and analysis of rebalance traces.

`data_source.py` is `format("rlab")`, on `source` (reads) and `sink` (writes), which reach brokers through `wire.py`.
`spark` starts sessions. `trace` turns events into tables, `report` prints them as a page. `strategies` compares
allocation strategies, `replay` replays a trace under other rules.

Only `cli` imports this package. Modules that run in Spark workers import nothing of Spark at module level unless
needed.
"""
