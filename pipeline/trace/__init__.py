"""Tables of a rebalance trace, computed in Spark from its events.

`source.py` reads events from files or a topic; `tables.py` computes all tables. `ownership.py` finds who owned which
queue when, `rebalances.py` how a group converged, `delivery.py` duplicates. `intervals.py` and `loads.py` decide,
purely, within one group.

`pipeline/report` prints the tables; `pipeline/replay` uses `source`.
"""
