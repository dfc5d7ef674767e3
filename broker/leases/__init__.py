"""Leases of queues and committed offsets: which member may consume a queue, and how far its group has come.

They are one room because each asks the other: a grant names the committed offset to start at, and a commit is checked
against the lease. `table.py`, `offsets.py`, `unstored.py` (commits that came with pulls) and `offset_moves.py` decide,
and are pure. `service.py` acts: it stores leases and commits, and notifies members of queues that become free.
`taken_table.py` and `taken.py` are about members that ask for no leases, as RocketMQ's own clients: the first decides
when such a member has given a queue up, the second takes leases for it; `pending_resets.py` keeps what they still do
from undoing a reset. `handlers.py` serves members, `reset.py` operators who reset offsets, and `stats.py` operators who
look at a group.

Read `table.py`, `service.py`, then `handlers.py`. Other rooms are given `Leases`. POP, which excludes leases, is known
here only as `Leases.rival`. `start_offsets.py` says where a group without a committed offset starts.
"""
