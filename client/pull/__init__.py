"""One owned queue: the loop that pulls it, and the window of its unfinished messages.

`process_queue.py` (any order) and `ordered_process_queue.py` (in order, of a queue or of each key) decide which
messages are dispatched next and which offset may be committed; both are pure. `owned_queue.py` is the queue with its
lease, and `loop.py` pulls it until it is revoked.

Read `process_queue.py`, then `loop.py`. Other rooms import `owned_queue.py` and `process_queue.py`; only rebalance
starts loops.
"""
