"""`rlab check`, `rlab report`, `rlab whatif` and `rlab strategies`: analyses of a trace, all but the first on Spark.

`events.py` reads a trace from files or from SYS_TRACE. The commands check their options before they start Spark, and
import `pipeline` only then. `rlab demo` uses `report.py`, and `rlab group` uses `events.py`.
"""
