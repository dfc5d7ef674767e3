"""Sinks: batches of messages that are published exactly once, although their writers fail and run again.

A task stages messages, which no consumer sees; the driver of the query commits the batch, and the broker publishes it.
`stage_table.py` (pure) decides which staged chunks a commit publishes, and whether a batch was published before.
`service.py` stages, publishes, and completes after a crash; `store.py` stores its state in the metadata.
`broker_sets.py` fixes the brokers that a batch is written to. `handlers.py` serves the requests.

Read in this order: stage_table, service, broker_sets, handlers, store. Outside this room only `broker/broker.py`
imports from it: `Sink` and `SinkHandlers`, two features. The other side is `pipeline/sink/`.
"""
