"""Checks of a history: whether its events, and the ledger of a run if there is one, keep what the project promises.

Everything here decides. Everybody who checks a run uses it: `rlab check`, the simulation, `demo`, `swarm` and `crash`.

    verdict.py    the words: a rule, an anomaly with its witness, a verdict
    limits.py     what is normal, declared beforehand
    reading.py    reads events from lines, and puts them in order
    ledger.py     lines for single messages, beside the events
    check.py      takes a history in order, and answers
    owners.py     two owners, none, moves without a cause, flapping
    passes.py     old member lists, changes that nobody is told of, passes for nothing
    offsets.py    commits, and where owners read, from what members and brokers tell
    messages.py   single messages, from a ledger
    lanes.py      their order
    delivery.py   counts of lost and duplicate messages
    evidence.py   collects anomalies, and casts doubt on those that rest on missing events

    words.py      a verdict in words
    page.py       a verdict as a page with pictures

Read `verdict.py`, then `check.py`. Others import those two, `limits`, `ledger`, `reading`, `words` and `page`, and
`delivery` to count.
"""
