"""The figures of a group: the effects and costs of its rebalances, computed from events. Pure.

Each figure has one definition, which all tools use: swarm, demo, report, what-if. This room imports only `model`, so
that any part of the project can use it.

    records.py  the records: an ownership, a rebalance, totals, with the definition of each field
    queue.py    one queue: its owners over time, moves, orphan time, double owners, duplicates
    loads.py    how many queues each member has, and the moves that a change of loads needs
    members.py  the members of a group, and the topics that they want
    changes.py  changes of the world, and which causes are the same change
    causes.py   one running rebalance
    uses.py     the uses of events of each kind
    group.py    one group: reads its events in order, and returns finished rows
    trace.py    all groups of a trace
    over_time.py  dispatched messages, latency and lag of a trace
    transactions.py  the outcomes of the transactions of producer groups
    faults.py   injected faults, and their times
    clocks/     the errors of the nodes' clocks, and the events with corrected times

Read `records.py`, then `group.py`. Memory grows with the open entries (owned queues, running rebalances), not with the
history.
"""
