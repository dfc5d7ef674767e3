"""Upkeep of a data directory without its broker: checks that it is whole, copies it, and restores a copy.

verify.py   reads every record, and reports what is damaged or missing
backup.py   copies a directory, also while its broker runs, and restores a directory from a copy

Both read files and ask no server. `rlab broker verify`, `dump` and `restore` call them; read `verify.py` first.
"""
