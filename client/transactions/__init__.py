"""Transactions on the client: a message and a local change that happen both or not at all.

`producer.py` is the public class: it begins transactions and ends them. `transaction.py` is one of them, from its half
message to its end. `checks.py` answers brokers that ask for the outcome of transactions of the group, of this producer
or of one that has ended. `batcher.py` sends the half messages of one event-loop iteration in one request, and likewise
the ends.

Read in this order: producer, transaction, checks, batcher. Other rooms import only `producer.py`.
"""
