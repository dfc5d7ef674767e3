"""The simulated kernel: virtual time, sockets and a network for unmodified asyncio programs.

Read `selector.py` first (the clock and the poll), then `sockets.py` (TCP), `loop.py` (the event loop), `network.py`
(hosts, latency, faults) and `run.py`, which puts them together. `standstill.py` stops hosts, and `task_order.py` makes
cancellation deterministic.

Other rooms use `run_simulation` and `Simulation` of `run.py`, the faults of `network.py`, and the errors of
`selector.py`.
"""
