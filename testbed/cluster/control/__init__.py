"""The control plane of a test cluster: faults and barriers over HTTP, for tests in any language.

barriers.py  what is still missing until something is so; decides
plane.py     what can be asked of a cluster: processes, topics, groups, barriers, faults
http.py      the HTTP of it, with its token and its OpenAPI page
verbs.py     the faults and barriers of every test cluster, by name
remote.py    a running cluster, for tests in Python, by HTTP
virtual.py   the same faults and barriers over a simulation, for the fixture `rlab_simulate`
starter.py   starts the servers as forks of one process, so that a test does not wait for Pythons

Read `plane.py` first. The processes themselves are in `cluster_bed.py` one floor up, which a console uses as well.
"""
