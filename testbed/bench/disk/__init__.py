"""Benchmarks of the message store: sends with and without files or syncs, cold reads, recovery, memory.

`replaced_disk.py` is a broker whose file layer is replaced, in a process of its own; `store_sends.py` measures it.
`catch_up.py`, `recovery.py` and `store_memory.py` run ordinary brokers on more data than fits into a round.
"""
