"""Leases and committed offsets: requested from brokers, or kept in a file by broadcasting consumers.

`offsets_to_commit.py`, `commit_waits.py` and `local_offsets.py` decide, and are pure: which offsets have to be
committed, which of them no pull has taken along in time, and which are in the file. `requests.py` asks brokers for
leases, releases them and commits, and `prompt_commits.py` has it do so in time; `queue_offsets.py` asks for the offsets
of one queue; `offset_store.py` has the interface of stores without leases, and `local_offset_store.py` the one in a
file.

Read `requests.py`, then `offsets_to_commit.py`. The rooms rebalance and lite_pull import all of them.
"""
