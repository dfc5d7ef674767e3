"""Daemons in this process or in child processes: `rlab namesrv`, `broker`, `exporter`, `console` and `cluster`.

`daemons.py` has one name server or one broker in this process, `cluster.py` several as child processes; begin with the
first. The room `upkeep/` has the care of data directories, `copies/` the brokers with copies, `elections.py` the
commands about the register of replica sets. `process/children.py` starts child processes, and `testbed/cluster` has
the processes of a test cluster and the control plane of `rlab cluster --control`.
"""
