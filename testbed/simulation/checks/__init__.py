"""Checkers of runs: each takes the calls and events of a run and lists violations of the promises.

`pop.py` checks POP groups. `ownership.py` follows the owners of queues and measures rebalances. `leaks.py` detects
tables and objects whose number grows, with `process_usage.py` for memory and descriptors. The rules that hold for every
history are in `traces/check`.

None of them needs the simulated kernel, so they also check runs on real sockets.
"""
