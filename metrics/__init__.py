"""Metrics of servers, clients and traces for Prometheus, and the health of servers.

A broker counts its own leases, moves and stored messages, so the counters of all brokers can be summed. Figures of a
whole group (rebalances, time to balance, orphan time) need the events of all nodes: the exporter computes them from the
trace. Servers and clients do not import this package: it reads their tables at each scrape, and receives their events.

    families.py       the name, kind, labels and help of every metric; docs/metrics.md is made from it
    event_counts.py   counters from the events of one node (pure)
    exposition.py     samples in the form of prometheus-client; the delay of the event loop
    requests.py       the duration of requests, measured by their connection
    broker.py         the metrics of a broker
    replica.py        the metrics of a replica, and of its broker while it is the master
    name_server.py    the metrics of a name server
    client.py         the metrics of the consumers and producers of a process
    trace_counts.py   the metrics of groups, from the events of a trace (pure)
    exporter.py       follows the trace of a cluster and computes these metrics
    endpoint.py       the HTTP endpoint: /metrics, /live, /ready
    http.py           an application that listens while a block runs; the console and the control plane use it too
    http_slots.py    limits and deadlines of its connections
    doctor/           inspects a whole cluster, and reports what is wrong
    page.py           prints the tables of docs/metrics.md

Read `families.py`, then `broker.py`.
"""
