"""Members that ask for no lease, as RocketMQ's own clients: the broker takes their leases, and watches what they show.

Everything that is done for such members alone is here. `implicit_leases.py` decides when a member has given a queue up,
`pending_resets.py` keeps commits from undoing a reset, and `held_locks.py` keeps requests for locks that wait; these are
pure. `pulls.py` takes leases for members that pull, and ends them. `locks.py` lets a request for a lock wait for its
queue. Grants, commits and resets of `broker/leases/` reach this room through hooks of `Feature`.

Read `implicit_leases.py`, then `pulls.py`. The door of this room is `pulls.py`, which `broker/messages/` asks, and
`locks.py`. Without RocketMQ's clients nothing here is ever stored or waited for.
"""
