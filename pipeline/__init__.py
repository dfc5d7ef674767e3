"""Spark: topics as DataFrames, and analysis of rebalance traces.

`data_source.py` is `format("rlab")`, with `tables.py` for tables in SQL. It uses `source` (reads) and `sink` (writes),
which send requests to brokers through `wire.py`, with the key and the certificates of `access.py`. `arrow_arrays.py`
builds columns. `spark` starts sessions. `trace` converts events to tables, `report` shows them on a page. `strategies`
compares allocation strategies, `replay` replays a trace under other rules.

It needs the extra `spark`. Brokers, name servers and clients do not import it, and it talks to servers only over the
wire.
"""
