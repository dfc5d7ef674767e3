"""Tables of a rebalance trace, computed from its events: in this process for short traces, else in Spark.

`rows.py` runs the pure figures of each group (`traces/figures/`), and has the columns of their tables; `files.py` reads
files with Arrow. With Spark, `source.py` reads the inputs that only Spark can read, `tables.py` computes all tables,
`events_table.py` the table of events, in which a task finds the events of its groups, and `group_figures.py` the tables
of groups; tasks write files with `parts.py`. `alone.py` computes the tables without Spark. `chains.py` has causal
chains as rows, for analyses by users.

`pipeline/report` prints the tables; `pipeline/replay` uses `source`.
"""
