"""A swarm: consumers that come and go and producers at a steady rate, on a simulated or a real cluster.

`swarm.py` runs the clients and reports to a sink; `observer.py` is the sink that counts messages and measures
rebalances. `rlab swarm` and `rlab demo` use both.
"""
