"""The changes of the master: an election, a handover, or an order of an operator.

`election.py` is the replica that stands when its master serves no more, `handover.py` the master that ends its service
without loss, and `operate.py` changes the row of a set for an operator. All of them end in one compare-and-set.
"""
