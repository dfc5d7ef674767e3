"""The shared part of the clients of one process: connections, routes, heartbeats, passes and the trace.

`routes.py`, `schedule.py` and `lease_session.py` decide and are pure. `instance.py` puts the parts together; clients
register themselves with it as residents (`member.py`). Read `instance.py` first, then `heartbeats.py`, which registers
the members at the brokers, and `passes.py`, which runs the rebalance passes of the members. `route_updates.py` keeps
the routes up to date, and `broker_reconnector.py` the connections to the masters of brokers. `user_code.py` calls the
user's functions, and decides which of their exceptions fail a call; `background.py` runs the tasks of a client, and
ends the client when one of them fails.

Other rooms of the client import `instance.py`, `registry.py`, `member.py`, `events.py`, `background.py`, `schedule.py`
and `user_code.py`; `Admin` sends requests to name servers through `name_servers.py`. This room imports no other room.
"""
