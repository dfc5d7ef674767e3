"""A broker: stores messages, and decides for each consumer group who may consume which queue, and from where on.

`broker.py` makes a broker from a list of features and runs it; `feature.py` defines features, and the events by which
one reacts to changes in another; `config.py` has the options. Each room (folder) is a feature, or a part that several
features use. From the lowest floor up, which is also an order to read them in:

`store` is the log; `durability` writes at the end of each event-loop iteration, and keeps the small transactional
state. `topics`, `groups` and `leases` are what a rebalance needs: which queues there are, who is a member, who owns a
queue and how far its group has come; `assignment` is for groups that let the broker assign. `messages` serves sends,
pulls and searches, `retry` delays, `pop` serves message by message, `sink` publishes the batches of a Spark query, and
`retention` deletes old segments. No room imports one of a higher floor.
"""
