"""Upkeep of one broker: is its data whole, a copy of it and back, and no writes before its maintenance.

`verify.py` and `backup.py` print what `broker/store/upkeep/` finds and does, and ask no server. `drain.py` and
`forget.py` ask the cluster.
"""
