"""`rlab sim` and `rlab lab`: programmes of faults on a simulated cluster, their verdicts, and lessons made of them.

`runs.py` runs one case or many, or makes one small; `on_spark.py` runs many on Spark; `report.py` has the printed
lines. `testbed/simulation/engine` runs a programme. `lesson.py` decides what is still wrong with a lesson in
`docs/labs`. The options and exit codes are in `cli/testbed/sim.py` and `cli/testbed/labs.py`.
"""
