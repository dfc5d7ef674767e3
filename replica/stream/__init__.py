"""The stream between replicas: a replica dials its master, which pushes the log and the changes of the tables.

`phases` is one replica as its master sees it; `kept` the changes that were not sent to all yet; `commit_point` what all
replicas have; `in_sync` which of them the master waits for. Read them in this order.
"""
