"""Comparison of allocation strategies on random histories of a group.

`allocate_all.py` computes the assignment of all members at once, with arrays; `histories.py` lets members join and
leave and compares each assignment with the previous one. `job.py` runs many histories in Spark, `plot.py` draws the
result.

`pipeline/replay` uses `allocate_all`.
"""
