"""POP on the client: messages one by one from any queue, each acknowledged for itself. RocketMQ: SimpleConsumer.

Read `message.py` (a delivery and its receipt handle), `requests.py`, `acks.py` and `intake.py`, then one of the two
consumers: `consumer.py` with `receiver.py`, for users who ask for messages, or `consumption.py` with `loop.py`, for a
push consumer in mode pop, which `push/` makes. `process_queue.py` decides (pure): which popped messages go to a
listener, and when their invisible time must be extended.

Other rooms import `consumption.py` (push) and `consumer.py`, `message.py` (the public API).
"""
