"""Runs a process of this project: its event loop, its signals, its children, and what it prints.

children.py        starts a child process, waits for its announcement, and stops it
cluster_folder.py  the folder of a cluster that keeps nothing
lines.py           reads and writes pipes, files and terminals without blocking the event loop
orders.py          what a daemon that is a child takes on its standard input: faults of its connections
output.py          tables, notes, JSON, progress and log lines
runtime.py         runs a coroutine to its end: event loop, signals, exit codes
start.py           the first moments of a process: signals, closed descriptors

Every command runs in `runtime.py` and prints by `output.py`. Nothing here imports a server or a client.
"""
