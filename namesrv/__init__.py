"""The name server: brokers register their topics here, and clients poll the routes. RocketMQ: namesrv.

`route_table` decides: which broker serves which topic, and when a broker is gone; `absent` remembers the brokers that
left without a goodbye; `registration` checks what a broker sends; `beginning` decides when a topic without a
registration does not exist; `fencing`, who may have a broker name, and `route_watchers`, who is notified of a change.
`handlers` answers requests from these tables, `server` joins them with a port and the timers, `config` has the options,
`faults` breaks connections in test clusters. Read them in this order: registration, route_table, fencing, absent,
beginning, route_watchers, handlers, server. Name servers do not know each other, and keep no routes on disk: after
a restart the table is complete again once every broker has registered. Others import `server` and `config`.

One name server of a cluster whose brokers have replicas also keeps the register of these sets, on disk: `elections` is
the file, `election_handlers` answers the requests.
"""
