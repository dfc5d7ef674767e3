"""Faults of live connections: a server loses, delays and repeats frames on purpose, or its connections break.

`fault.py` defines a fault and the frames that it affects, `active.py` keeps the active faults and decides about each
frame, `connection.py` is a connection that carries faults out, and `hook.py` puts it in the place of a server's
connections while a fault is active. Without a fault, connections have the shipped class. Begin at `fault.py`.
"""
