"""Upkeep of a data directory without its broker: is it whole, a copy of it, and back.

verify.py   reads every record, and reports what is damaged or missing
backup.py   copies a directory, also while its broker runs, and makes one from a copy

Both read files and ask no server. `rlab broker verify`, `dump` and `restore` call them; read `verify.py` first.
"""
