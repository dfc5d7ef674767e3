"""Clusters of child processes for tests: kills, pauses, connection faults, consumers.

bed_consumer.py  a consumer that the console adds to a test cluster
certificates.py  certificates of a test, and the authority that signs them
cluster_bed.py   kills, pauses and starts the processes of a cluster, breaks their connections, adds consumers
ports.py         ports for servers that restart on the same port
registered.py    waits until brokers are registered at a name server
rotation.py      keys and certificates that are replaced while a cluster runs
whole.py         whether a set of replicas has everything that a fault may take away

`control/` is the control plane of `rlab cluster --control`. Read `cluster_bed.py` first.
"""
