"""Upkeep of one broker: is its data whole, a copy of it and back, and no writes before its maintenance.

verify.py   what is damaged or missing in a data directory
backup.py   a copy of a data directory, also while its broker runs, and one made from a copy
drain.py    takes the writes from a broker, and waits until its groups have read all it has
forget.py   makes name servers forget a broker that was killed and will not return

The first two print what `broker/store/upkeep/` finds and does, and ask no server.
"""
