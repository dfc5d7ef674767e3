"""`rlab report`, `rlab whatif` and `rlab strategies`: analyses of rebalances, on Spark.

report.py            costs of the rebalances in a trace, as a page and tables (`pipeline/report`)
whatif.py            a trace replayed under other rules (`pipeline/replay`)
strategies.py        strategies over random histories (`pipeline/strategies`)
spark_progress.py    progress of Spark jobs on stderr

The commands check their options before they start Spark, and import `pipeline` only then. `rlab demo` uses `report.py`.
"""
