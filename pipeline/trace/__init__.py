"""Tables of a rebalance trace, computed in Spark from its events.

`source.py` reads events from files or a topic; `tables.py` computes all tables. `group_figures.py` runs the figures of
each group (`figures/`), which decide purely; `delivery.py` counts dispatched messages, their latency and the lag.

`pipeline/report` prints the tables; `pipeline/replay` uses `source`.
"""
