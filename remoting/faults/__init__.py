"""Faults of live connections: a server loses, delays and repeats frames on purpose, or its connections break.

`fault.py` defines a fault and the frames that it affects, `active.py` keeps the active faults and decides about each
frame, `connection.py` carries the faults of one connection out, and `hook.py` gives it the place of the methods of a
server's connections while a fault is active. Without a fault, connections are unchanged. Begin at `fault.py`.
"""
