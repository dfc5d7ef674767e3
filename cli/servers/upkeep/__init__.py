"""Upkeep of one broker: is its data whole, a copy of it and back, and no writes before its maintenance.

verify.py   reads every record without a broker, and says what is damaged or missing
backup.py   copies a directory, also while its broker runs, and makes one from a copy
drain.py    takes the writes from a broker, and waits until its groups have read all it has
forget.py   makes name servers forget a broker that was killed and will not return

The first two read files and ask no server; `rlab broker` has all of them as commands.
"""
