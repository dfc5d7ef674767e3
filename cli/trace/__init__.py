"""`rlab check`, `rlab report`, `rlab whatif` and `rlab strategies`: analyses of a trace, all but the first on Spark.

check.py             whether a trace keeps what is promised (`traces/check`)
events.py            reads a trace from files or from SYS_TRACE
report.py            costs of the rebalances in a trace, as a page and tables (`pipeline/report`)
whatif.py            a trace replayed under other rules (`pipeline/replay`)
strategies.py        strategies over random histories (`pipeline/strategies`)
spark_progress.py    progress of Spark jobs on stderr

The commands check their options before they start Spark, and import `pipeline` only then. `rlab demo` uses `report.py`,
and `rlab group` uses `events.py`.
"""
