"""Metrics: what servers, clients and traces show to Prometheus, and whether a server is healthy.

A broker counts what happens on it (leases, moves, messages stored), so its counters may be added up over brokers. What
is of a whole group (rebalances, time to balance, orphan time) nobody sees but who reads the trace: the exporter. No
role knows this package: it looks at their tables when it is asked, and takes their events.

    families.py       the name, kind, labels and help of every metric; docs/metrics.md is made from it
    event_counts.py   counters from the events of one node (pure)
    exposition.py     samples as prometheus-client wants them; the delay of the event loop
    requests.py       how long requests take, by a connection that looks at its clock
    broker.py         the metrics of a broker
    name_server.py    the metrics of a name server
    client.py         the metrics of the consumers and producers of a process
    trace_counts.py   the metrics of groups, from the events of a trace (pure)
    exporter.py       follows the trace of a cluster for them
    endpoint.py       the HTTP endpoint: /metrics, /live, /ready
    http.py           an application that listens while a block runs; the console and the control plane use it too
    http_places.py    places and deadlines of its connections
    doctor/           looks at a whole cluster, and says what is wrong
    page.py           prints the tables of docs/metrics.md

Read `families.py`, then `broker.py`.
"""
