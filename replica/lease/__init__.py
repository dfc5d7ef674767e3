"""The lease of a master: it serves only while no other replica can have become the master.

`master_lease.py` decides until when a master may serve, by the frames that its replicas have confirmed; `promise.py`
decides when such a replica may become the master itself, and which of several stands for election first. `clocks.py`
has the clock that measures both, and detects that a machine was suspended. `held.py` is the lease of a running master.
"""
