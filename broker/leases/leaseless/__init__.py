"""Members that ask for no lease, like RocketMQ's own clients: the broker leases for them, and watches their requests.

This room serves only such members, except that pulls of every client check here whether they may read.
`implicit_leases.py` decides when a member has abandoned a queue, `pending_resets.py` keeps commits from undoing a
reset, and `parked_locks.py` parks requests for locks that wait; these are pure. `pull_access.py` decides about the
pulls of every client, and takes and frees the leases of members that ask for none; `locks.py` lets a request for a lock
wait for its queue. Grants, commits and resets of `broker/leases/` reach this room through hooks of `Feature`.

Read `implicit_leases.py`, then `pull_access.py`. Without RocketMQ's clients this room stores nothing and waits for
nothing.
"""
