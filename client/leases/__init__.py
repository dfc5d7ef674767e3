"""Leases and committed offsets: requested from brokers, or kept in a file by broadcasting consumers.

Three modules decide, and are pure: `offsets_to_commit.py` decides which offsets have to be committed, `commit_waits.py`
which of them no pull has carried in time, and `local_offsets.py` has the content of the file. `requests.py` requests
and releases leases, and commits offsets; `prompt_commits.py` sends the commits that no pull has carried in time;
`queue_offsets.py` requests the offsets of one queue. `offset_store.py` has the interface of stores without leases, and
the store at the brokers; `local_offset_store.py` has the store in a file.

Read `requests.py`, then `offsets_to_commit.py`. The rooms rebalance and lite_pull import all of them.
"""
