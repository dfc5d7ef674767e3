"""Tables of a rebalance trace, computed from its events: in this process if they are few, else in Spark.

`rows.py` runs the figures of each group (`traces/figures/`), which decide purely, and has the columns of their tables;
`files.py` reads files with Arrow. With Spark, `source.py` reads what only Spark can, `tables.py` computes all tables,
`events_table.py` that of the events, in which a task finds those of its groups, and `group_figures.py` those of groups;
tasks write files with `parts.py`. `alone.py` does it without Spark.

`pipeline/report` prints the tables; `pipeline/replay` uses `source`.
"""
