"""Runs a process of this project: its event loop, its signals, its children, and its output.

children.py        starts a child process, waits for its announcement, and stops it
cluster_folder.py  the temporary data folder of a cluster
lines.py           reads and writes pipes, files and terminals without blocking the event loop
orders.py          the orders that a child daemon receives on its standard input: faults of its connections
output.py          tables, notes, JSON, progress and log lines
runtime.py         runs a coroutine to its end: event loop, signals, exit codes
start.py           the first steps of a process: signals, closed descriptors

Every command runs in `runtime.py` and prints with `output.py`. No file here imports a server or a client.
"""
