"""The testbed runs clusters in order to test, measure or show them. No server imports it.

load/        consumers that join and leave, and producers of numbered messages, on any cluster
simulation/  the real servers and clients in virtual time, with faults
cluster/     clusters of child processes, their consumers and their control plane
swarm/       the load in one process or several, with checks of its messages and its group
demo/        the life of a group on an embedded cluster
bench/       measurements
crash/       real brokers that are killed under load, and an audit
fuzz/        hostile requests
soak/        load and kills on real processes for half an hour
attack/      measures the latency of a client while other clients attack its broker
runs/        the runs and reports of `rlab sim` and `rlab lab`

pytest_plugin.py  fixtures of a test cluster; pytest loads them by the name `pytest_rlab`

The commands are in `cli/testbed`. Start with `simulation`.
"""
