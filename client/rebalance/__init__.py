"""A member of a group: its target, and the queues that it owns.

Two modules decide, and are pure: `plan.py`, which queues the member should own, and `ownership_table.py`, what becomes
of each queue until it does (with `ownership_events.py` and `ownership_acts.py`, its input and its output). The
others carry that out: `leased_queues.py` under leases, for the target that `target.py` finds, with the commits of
`lease_commits.py`; `broker_assigned_queues.py` for a target that a broker computes; `unleased_queues.py` without
leases, from the offsets of `start_offsets.py`. All three own queues as `pulled_queues.py` does, and are made of one
`MemberContext` (`ownership.py`). `member.py` is the life of the consumer around them.

Read `member.py`, `leased_queues.py`, `plan.py`, `ownership_table.py`. Other rooms import `member.py`, `ownership.py`
and `plan.py`; lite pull also `pulled_queues.py` and `unleased_queues.py`.
"""
