"""Benchmarks of the rebalance: joins, moves under load, stalls after a kill, memory of members, the sticky strategy.

`join`, `moves` and `memory` run a hundred or more consumers in this process and learn from their events when the group
has converged (`kit/convergence.py`); `stalls` kills a member in a process of its own; `sticky` only computes.
"""
