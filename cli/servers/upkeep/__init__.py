"""Upkeep of the data directory of one broker: is it whole, a copy of it, and back.

verify.py   reads every record without a broker, and says what is damaged or missing
backup.py   copies a directory, also while its broker runs, and makes one from a copy

Neither asks a server; `rlab broker` has both as commands.
"""
