"""The testbed: all that runs a cluster in order to test, measure or show it. No server imports it.

load/        consumers that come and go, and producers of numbered messages, on any cluster
simulation/  shipped servers and clients in virtual time, with faults
cluster/     clusters of child processes, their consumers and their control plane
swarm/       that load in one process or several, observed
demo/        the life of a group on an embedded cluster
bench/       measurements
crash/       real brokers that are killed under load, and an audit
fuzz/        hostile requests
soak/        load and kills on real processes for half an hour
attack/      how late a client is answered while others attack its broker
runs/        what `rlab sim` and `rlab lab` run and report

pytest_plugin.py  fixtures of a test cluster, which pytest loads by the name `pytest_rlab`

The commands are in `cli/testbed`. Start with `simulation`.
"""
