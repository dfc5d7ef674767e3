"""Daemons in this process or in child processes: `rlab namesrv`, `broker`, `exporter`, `console` and `cluster`.

daemons.py         one name server or one broker in this process
options.py         the options of a broker, with sizes and times as people write them
descriptors.py     how many connections the limits of this process are enough for
cluster.py         a name server and brokers as child processes, started and stopped together
cluster_folder.py  the folder of a cluster that keeps nothing
cluster_bed.py     the processes of a cluster: kills, pauses, starts them, breaks their connections, adds consumers
bed_consumer.py    a consumer that a page adds to a test cluster
children.py        starts a child process, waits for its announcement, and stops it
trace_file.py      the file of `--trace`
watched.py         a server with an HTTP endpoint, for `--metrics`
doctor.py          looks at a running cluster, and says what is wrong
console.py         the web page of a cluster
exporter.py        the metrics of groups, from the trace of a cluster

The room `control/` has the control plane of `rlab cluster --control`, `upkeep/` the care of data directories.
Every other room that needs a process uses `children.py`; `rlab demo` also writes a trace file.
"""
