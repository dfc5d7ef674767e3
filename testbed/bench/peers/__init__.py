"""Peers: the same work done by Redis, NATS and Kafka with their Python clients, in turns with ours.

    rlab bench --peers redis,nats,kafka

systems/         the systems: servers and clients, ours among them
work             the measurements of one system: sends and consumption
pace             latencies from the intended time of a send: due and late sends (pure)
side, latency    the process on one side of a broker, and the measurement that runs two of them
compare          all measurements of all systems, in turns
table, picture   medians, ratios and goals as rows; the same as SVG (pure)

Read `compare`, then `systems/`. Other rooms import `compare`, `table`, `picture` and `systems/registry`.
"""
