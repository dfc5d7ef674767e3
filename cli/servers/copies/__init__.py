"""Brokers with copies: a replica as a daemon, and what operators ask and change of a set.

`options.py` declares the options of `rlab broker` about copies, `serving.py` runs a replica with them. `replicas.py`
and `handover.py` ask the replicas, `elect.py` changes the row in the register, `salvage.py` reads what a cut has kept.
"""
