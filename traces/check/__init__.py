"""Checks a history, that is events and possibly the ledger of a run, against the promises of the project.

All modules are pure. Every tool that checks a run uses them: `rlab check`, the simulation, `demo`, `swarm` and `crash`.

    verdict.py    the records: a rule, an anomaly with its witness, a verdict
    limits.py     the bounds of normal behaviour, set in advance
    reading.py    reads events from lines, and puts them in order
    ledger.py     lines for single messages, beside the events
    check.py      reads a history in order, and returns the verdict
    owners.py     two owners, no owner, moves without a cause, flapping
    passes.py     old member lists, changes without notifications, needless passes
    offsets.py    commits, and the offsets that owners read, from the events of members and brokers
    messages.py   single messages, from a ledger
    lanes.py      their order
    delivery.py   counts of lost and duplicate messages
    evidence.py   collects anomalies, and marks those in doubt that depend on missing events

    words.py      a verdict in words
    page.py       a verdict as a page with pictures

Read `verdict.py`, then `check.py`. Other packages import these two, `limits`, `ledger`, `reading`, `words` and `page`,
and `delivery` to count messages.
"""
