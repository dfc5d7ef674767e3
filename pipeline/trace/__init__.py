"""Tables of a rebalance trace, computed from its events: in this process if they are few, else in Spark.

`rows.py` runs the figures of each group (`figures/`), which decide purely, and has the columns of their tables. With
Spark, `source.py` reads events from files or a topic, `tables.py` computes all tables, `events_table.py` that of the
events, in which a task finds those of its groups, `group_figures.py` those of groups, and `delivery.py` counts
dispatched messages, their latency and the lag; tasks write files with `parts.py`. `alone.py` does it without Spark.

`pipeline/report` prints the tables; `pipeline/replay` uses `source`.
"""
