"""`rlab demo`: the life of a consumer group on an embedded cluster, from the first consumer to the verdict.

Read `story.py` first: it has the steps, and when each ends. `state.py` collects events and checks them. `cluster.py`
runs the servers in this process, and breaks or pauses the connections of one client. `view.py` draws the live view,
`report.py` the table and the verdict at the end; both only read the state. `cli/testbed/demo.py` has the options and
the exit code.
"""
