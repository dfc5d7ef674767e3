"""The control plane of a test cluster: faults and barriers over HTTP, for tests in any language.

barriers.py  the conditions that a test waits for, and which parts of them are not met yet
plane.py     the requests that a cluster answers: processes, topics, groups, barriers, faults
http.py      serves these requests by HTTP, with a token and an OpenAPI page
verbs.py     the faults and barriers of every test cluster, by name
remote.py    a running cluster, for tests in Python, by HTTP
virtual.py   the same faults and barriers for a simulation, for the fixture `rlab_simulate`
starter.py   starts the servers as forks of one process, which is faster than a new Python for each

Read `plane.py` first. The processes themselves are in `cluster_bed.py` one folder up, which the console uses as well.
"""
