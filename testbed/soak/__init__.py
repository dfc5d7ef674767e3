"""`make soak`: a cluster of real processes under load for half an hour, one of which is killed every few seconds.

Read `run.py` first: one run from the first server to the verdict. Its members and producers are parts of a swarm
(`testbed/swarm/worker.py`). `strangers.py` has connections that do not belong to a client, and `verdict.py` has the
document of the result.
"""
