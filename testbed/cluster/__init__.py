"""Clusters of child processes for tests: kills, pauses, faults of connections, consumers.

bed_consumer.py  a consumer that a page adds to a test cluster
certificates.py  certificates of a test, and the authority that signs them
cluster_bed.py   the processes of a cluster: kills, pauses, starts them, breaks their connections, adds consumers
ports.py         ports for servers that are started again on the same one
registered.py    waits until brokers are registered at a name server
rotation.py      keys and certificates that are replaced while a cluster runs

`control/` is the control plane of `rlab cluster --control`. Read `cluster_bed.py` first.
"""
