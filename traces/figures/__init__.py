"""The figures of a group: what its rebalances did and cost, computed from events. Pure.

One definition of each figure, for everything that prints one: swarm, demo, report, what-if. It imports nothing but
`model`, so that any part of the project may use it.

    records.py  the words: an ownership, a rebalance, totals, each field with its definition
    queue.py    one queue: who owned it when, moves, orphan time, double owners, what came twice
    loads.py    how many queues each member has, and the moves that a change of loads needs
    members.py  who is a member, and which topics somebody wants
    changes.py  changes of the world: which causes are one
    causes.py   one rebalance while it runs
    uses.py     the uses of events of each kind
    group.py    one group: takes its events in order, and returns what is over
    trace.py    all groups of a trace
    over_time.py  dispatched messages, latency and lag of a trace
    transactions.py  what became of the transactions of producer groups
    faults.py   what was done on purpose, and when
    clocks/     how far the clocks of the nodes are off, and the events in right times

Read `records.py`, then `group.py`. Memory follows what is open (owned queues, running rebalances), not the history.
"""
