"""A member of a group: its target, and the queues that it owns.

Two modules decide, and are pure: `plan.py` decides which queues the member should own, and `ownership_table.py` the
steps of each queue until it does (its input is `ownership_events.py`, its output `ownership_acts.py`). The other
modules carry the steps out: `leased_queues.py` under leases, for the target that `target.py` finds, with the commits
of `lease_commits.py`; `broker_assigned_queues.py` for a target that a broker computes; `unleased_queues.py` without
leases, from the offsets of `start_offsets.py`. All three extend `pulled_queues.py` and get one `MemberContext`
(`ownership.py`). `member.py` is the consumer around them: its start, its subscriptions, its shutdown.

Read `member.py`, `leased_queues.py`, `plan.py`, `ownership_table.py`. Other rooms import `member.py`, `ownership.py`
and `plan.py`; lite pull also `pulled_queues.py` and `unleased_queues.py`.
"""
