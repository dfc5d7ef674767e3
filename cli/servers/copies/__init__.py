"""Brokers with copies: a replica as a daemon, and the commands of operators about a set.

`options.py` declares the options of `rlab broker` about copies, `serving.py` runs a replica with them. `replicas.py`
and `handover.py` send requests to the replicas, `elect.py` changes the row in the register, `salvage.py` reads the
messages that were cut from a log after an election with a loss.
"""
