"""Members that ask for no lease, as RocketMQ's own clients: the broker acquires their leases, and watches their pulls.

The code for such members alone is here, and pulls ask this room whether they may read. `implicit_leases.py` decides
when a member has released a queue, `pending_resets.py` keeps commits from undoing a reset, and `held_locks.py` holds
requests for locks that wait; these are pure. `pull_access.py` answers pulls of every client, and takes and frees the
leases of members that ask for none; `locks.py` lets a request for a lock wait for its queue. Grants, commits and resets
of `broker/leases/` reach this room through hooks of `Feature`.

Read `implicit_leases.py`, then `pull_access.py`. Without RocketMQ's clients nothing is ever stored or waited for here.
"""
