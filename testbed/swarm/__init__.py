"""`rlab swarm`: consumers and producers under churn on any cluster, in this process or in several.

Read `run.py` first: one run from the topic to the summary. `parts.py` runs the parts of the swarm, one in this process
or several in processes of their own (`worker.py`), which report to it in lines of JSON (`wire.py`); `spark.py` runs
them in executors of Spark instead. `unread.py` searches the queues for what was not received. The swarm itself is
`members.py`, a load of `testbed/load`, and its checks are `observer.py`. `cli/testbed/swarm.py` has the options, the
printed lines and the exit code.
"""
