"""`rlab swarm`: consumers and producers against any cluster, in this process or spread over several.

Where is what: the swarm itself in `simulation/swarm/swarm.py`, its books in `simulation/swarm/observer.py`, its parts
in other processes in `parts.py` and `worker.py`, what these say to each other in `wire.py`, the run in `conduct.py`,
the command in `command.py`.
"""
