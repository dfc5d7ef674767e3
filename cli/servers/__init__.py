"""Daemons in this process or in child processes: `rlab namesrv`, `broker`, `exporter`, `console` and `cluster`.

daemons.py         one name server or one broker in this process
options.py         the options of a broker, with sizes and times as people write them
descriptors.py     how many connections the limits of this process are enough for
cluster.py         a name server and brokers as child processes, started and stopped together
trace_file.py      the file of `--trace`
watched.py         a server with an HTTP endpoint, for `--metrics`
doctor.py          looks at a running cluster, and says what is wrong
console.py         the web page of a cluster
exporter.py        the metrics of groups, from the trace of a cluster

The room `upkeep/` has the care of data directories. `process/children.py` starts child processes, and `testbed/cluster`
has the processes of a test cluster and the control plane of `rlab cluster --control`.
"""
