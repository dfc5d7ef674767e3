"""`rlab sim`: programmes of faults on a simulated cluster, from a file or drawn from seeds, and their verdicts.

`command.py` has the options and the exit code. `runs.py` runs one case or many, or makes one small; `on_spark.py` runs
many on Spark; `report.py` has the printed lines. What runs a programme is `simulation/engine`. No other room imports
from here.
"""
