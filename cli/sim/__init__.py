"""`rlab sim` and `rlab lab`: programmes of faults on a simulated cluster, their verdicts, and lessons made of them.

`command.py` has the options and the exit code. `runs.py` runs one case or many, or makes one small; `on_spark.py` runs
many on Spark; `report.py` has the printed lines. What runs a programme is `simulation/engine`. `labs.py` lists, starts
and checks lessons (`docs/labs`), and `lesson.py` decides what is still wrong with one. No other room imports from here.
"""
