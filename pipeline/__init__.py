"""Spark: topics as DataFrames, and analysis of rebalance traces.

`data_source.py` is `format("rlab")`, with `tables.py` for tables in SQL, on `source` (reads) and `sink` (writes),
which reach brokers through `wire.py`. `arrow_arrays.py` builds columns. `spark` starts sessions. `trace` turns events
into tables, `report` shows them on a page. `strategies` compares allocation strategies, `replay` replays a trace under
other rules.

It needs the extra `spark`. Brokers, name servers and clients import nothing from here, and servers are reached only
over the wire.
"""
