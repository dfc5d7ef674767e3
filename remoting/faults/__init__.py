"""Faults of live connections: a server loses, delays and repeats frames on purpose, or its connections break.

`fault.py` says what a fault is and to which frames it is done, `active.py` keeps those that are active and decides
about each frame, `connection.py` is a connection to which faults are done, and `hook.py` puts it in the place of a
server's connections while a fault is active. Without one, connections are of the class that ships. Begin at `fault.py`.
"""
