"""Checkers of runs: each takes the calls and events of a run and lists violations of what was promised.

`order.py` checks ordered groups, `pop.py` POP groups, `invariants.py` everything that a torture run promises.
`ownership.py` follows the owners of queues and measures rebalances. `leaks.py` finds what grows, with
`process_usage.py` for memory and descriptors.

None of them needs the simulated kernel, so they also check runs on real sockets.
"""
