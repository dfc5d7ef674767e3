"""Copies of a broker: the replicas of one broker name hold the same log, and one of them, the master, serves it.

A register outside the replicas holds one row for each set of replicas: which replica is the master, in which epoch, and
which replicas are in sync. Every change of the row is a compare-and-set, so two replicas never are the master of one
epoch. A replica that is promoted opens its data directory with the shipped `Broker`, as a restart does.
"""
