"""Copies of a broker: the replicas of one broker name hold the same log, and one of them, the master, serves it.

A register outside the replicas holds one row for each set of replicas: which replica is the master, in which epoch, and
which replicas are in sync. Every change of the row is a compare-and-set, so two replicas never are the master of one
epoch. A replica that is promoted opens its data directory with the ordinary `Broker`, as a restart does.

`host.py` runs a replica in its roles: `follower_role.py` copies a master, `master_role.py` is one, and `mastership/`
changes it. `membership.py` is its place in the set, `directory.py` the file that proves it, and `config.py` has its
options. `waiting.py` is the server of a replica that is not the master, and `set_requests.py` answers operators. A
master serves only while its `lease/` holds. Read `membership.py`, then `host.py`.
"""
