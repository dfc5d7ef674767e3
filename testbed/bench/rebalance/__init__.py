"""Benchmarks of the rebalance: joins, moves under load, stalls and repeats after a kill, memory, the sticky strategy.

`join`, `moves` and `memory` run a hundred or more consumers in this process, whose events show when the group
has converged (`kit/convergence.py`); `stalls` and `twice` kill members in processes of their own; `overload` floods
real servers with a group in them; `width` lets groups of up to a thousand change in virtual time, and `width_chart.py`
draws it; `sticky` only computes.
"""
