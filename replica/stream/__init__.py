"""The stream between replicas: a replica dials its master, which pushes the log and the changes of the tables.

Read them in this order. Decisions: `frames` is what passes between the two; `phases` one replica as its master sees
it; `kept` the changes that were not sent to all yet; `commit_point` the newest flush that all replicas have; `in_sync`
which of them the master waits for; `following` the rules of a replica for the frames that it gets.

Acts: `session` sends to one replica, `sessions` are all of them, `greeting` lets one in, `segments` serves finished
files, `set_keeper` writes the row of the set, and `sender` is all of that as a feature of the master's broker.
`follower` is the replica's half, `applying` writes the frames, and `fetching` gets finished files.
"""
