"""Topics of a broker: which there are, how many queues each has, and how they are registered with name servers.

`table.py` decides (pure): names, queue counts, permissions, and the topic ids by which stored records know their topic.
`lost.py` decides which topics of the log the metadata has lost, and how they are restored (pure). `service.py` acts: it
stores topics, announces changes, and drops queues of the log that belong to no topic. `damage.py` reports which stored
messages are damaged or missing. `registration.py` keeps the broker registered with every name server. `facts.py`
answers the translators of RocketMQ's dialect. `types.py` decides which messages a topic of a message type takes (pure).

Read `table.py`, then `service.py`. Other rooms are given `Topics`: they look topics up in `Topics.table`, and call
`for_send`, `ensure_retry` or `ensure_dlq` for a topic that is made when it is missing. A deleted topic reaches them by
the hook `topic_deleted`.
"""
