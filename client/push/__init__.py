"""Push consumers: listeners are called with messages as they arrive.

`consumer.py` is the public class; it joins a way to own queues (room rebalance, or pop) with workers (room listeners).
`runs.py` calls a listener with batch after batch, as long as it does not wait.
`services.py` acts on the result of a listener: finish, send back, requeue, or send to the DLQ.

Read `consumer.py`, then `services.py` and `runs.py`. This is the top room of the client; no other one imports it.
"""
