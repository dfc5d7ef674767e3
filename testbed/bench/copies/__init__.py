"""Benchmarks of a broker with copies: sends that wait for another replica, and replicas that copy the log.

`replica_processes.py` starts a set of replicas. `sends.py` compares sends to sets with sends to a broker without
copies, and `catch_up.py` measures replicas that copy a log, without load and under load, and the memory that they take
of the master. `every.py` runs both. `failover.py` measures how long sends wait when the master is lost or changed.
"""
