"""Figures, checks and explanations of a group, computed from the events of its trace. Pure.

figures/  what rebalances did and cost, with one definition of each figure
check/    whether a history keeps the promises of the project
why/      why a queue moved, and why a message came twice or never

They import only `model`, so every tool that reads a trace can use them. Read `figures/records.py` first.
"""
