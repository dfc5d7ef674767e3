"""Upkeep of one broker: verify its data, back it up and restore it, and stop its writes before a maintenance.

`verify.py` and `backup.py` run the functions of `broker/store/upkeep/` on files, and print their results; they need no
server. `drain.py` and `forget.py` ask the cluster.
"""
