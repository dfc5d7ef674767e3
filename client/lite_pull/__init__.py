"""The consumer that is polled, and may choose its queues and offsets itself. RocketMQ: DefaultLitePullConsumer.

Read `consumer.py`. `polled_messages.py` decides what polls have processed and may be committed; `ready_queues.py` has
the queues with fetched messages, in the order in which polls take from them. Leases, pulls and passes are those of
`rebalance/` and `pull/`. Other rooms import nothing from here but `LitePullConsumer`, which `client/__init__.py`
exports.
"""
