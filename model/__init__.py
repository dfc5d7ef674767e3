"""The nouns of the cluster: records and decisions that all other packages share. Pure.

Nothing here imports anything of ours. `errors` draws the tree of all errors, `limits` has every bound
and interval with its reason, `names` checks names. Read `message`, `record` and `decode` for the way of a message;
`message_queue`, `topic_route`, `subscription`, `heartbeat`, `group_agreement` and `assignment` for groups; `events` and
`event_log` for the trace. `even_loads` is an algorithm that strategies and brokers share; `quirks` names the defects of
RocketMQ that can be switched on. Every other package imports it.
"""
