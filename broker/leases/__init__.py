"""Leases of queues and committed offsets: which member may consume a queue, and how far its group has come.

They are one room because each needs the other: a grant names the committed offset to start at, and a commit is checked
against the lease. `table.py`, `offsets.py`, `unstored_commits.py` (commits that came with pulls) and
`offset_out_of_range.py` decide, and are pure. `service.py` acts: it stores leases and commits, and notifies members of
queues that become free. `handlers.py` serves members. `reset.py` serves operators who reset offsets, and `stats.py`
operators who look at a group. `start_offsets.py` decides where a group without a committed offset starts.

Read `table.py`, `service.py`, then `handlers.py`. Other rooms are given `Leases`. Two rooms above this one influence
its decisions through hooks of `Feature`: POP, which excludes leases (`withholds_lease`, `commit_refusal`), and
`broker/leases/leaseless/`, for members that ask for no lease (`lease_refused`, `lease_freed`, `offsets_reset`).
"""
