"""The changes of the master: an election, a handover, or an order of an operator.

`election.py` makes a replica the master after the old one has stopped serving. In `handover.py` the master itself makes
another replica the master, without loss. `operate.py` changes the row of a set for an operator. Each ends in one
compare-and-set.
"""
