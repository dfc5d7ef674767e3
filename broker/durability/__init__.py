"""Durability: the write at the end of each event-loop iteration, and the small transactional state of all rooms.

`barrier.py` holds back answers until what the iteration changed is written: messages with one write, metadata with one
transaction. `group_commit.py` lets those writes share a sync (`FlushMode.SYNC`). `metadata.py` is the small state; it
knows no room: each declares its own tables, and changes their rows through `Table`. `metadata_file.py` is its SQLite
file, which a replica keeps equal to its master's by changes (`changes.py`) and snapshots (`snapshot.py`).
`lock_watch.py` stops a broker whose directory is no longer locked.

A broker with other replicas also waits for these: `replication.py` keeps written flushes until they are committed,
`replicator.py` is the interface of their sender, and `serving.py` refuses requests while that is impossible.

Read `barrier.py`, then `metadata.py`. Features reach both through `Core`: a handler changes rows, then calls
`barrier.respond_after_commit`, `after_append` or `metadata_changed`. A room with stored state imports `Table`, and
`Journal` if its changes are too many for rows.
"""
