"""A member of a group: its target, and the queues that it owns.

`plan.py` decides and is pure: which queues the member should own, and what to revoke and acquire. `leased_queues.py`
carries the plan out under leases; `broker_assigned_queues.py` does so for a target that a broker computes, and
`unleased_queues.py` without leases. All three own queues as `pulled_queues.py` does, and are made of one
`MemberContext` (`ownership.py`). `member.py` is the life of the consumer around them.

Read `member.py`, `leased_queues.py`, `plan.py`. Other rooms import `member.py`, `ownership.py` and `plan.py`; lite pull
also `pulled_queues.py` and `unleased_queues.py`.
"""
