"""`rlab swarm`: consumers and producers under churn on any cluster, in this process or in several.

Read `run.py` first: it is one run from the topic to the summary. `parts.py` runs the parts of the swarm, one in this
process or several in their own processes (`worker.py`), which report to it in lines of JSON (`wire.py`). `spark.py`
runs them in executors of Spark instead. `unread.py` searches the queues for messages that were not received. The swarm
itself is in `members.py`, a load of `testbed/load`, and its checks are in `observer.py`. `cli/testbed/swarm.py` has the
options, the printed lines and the exit code.
"""
