"""The name server: brokers register their topics here, and clients poll the routes. RocketMQ: namesrv.

`route_table` decides which broker serves which topic, and when a broker is removed; `absent` remembers the brokers that
did not unregister; `registration` reads and checks the registration of a broker; `beginning` decides whether a topic
without a registration does not exist, or is not known yet after a start; `fencing` decides which broker may have a
name, and `route_watchers` which clients are notified of a changed route.
`handlers` answers requests from these tables, `server` joins them with a port and the timers, `config` has the options,
`faults` breaks connections in test clusters. Read them in this order: registration, route_table, fencing, absent,
beginning, route_watchers, handlers, server. Name servers do not know each other, and keep no routes on disk: after
a restart the table is complete again once every broker has registered. Others import `server` and `config`.

If brokers of a cluster have replicas, one of its name servers also keeps the register of these sets of replicas, on
disk: `elections` is the file, `election_handlers` answers the requests.
"""
