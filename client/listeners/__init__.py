"""The calls of users' listeners: of messages, and of changes of queues.

`listener.py` is the call itself, `threads.py` has the threads of plain functions, and `failed.py` is a result for
failed messages. `running_calls.py` decides when a call has taken too long, and `hanging.py` ends the wait for it.
`worker_pool.py` dispatches batches to listeners, `send_back.py` sends failed messages back to a broker.
`queue_listener_notifier.py` and `topic_queues_watch.py` call listeners of queues.

Read `listener.py`, then `worker_pool.py`. Other rooms import any of them; this one imports only instance.
"""
