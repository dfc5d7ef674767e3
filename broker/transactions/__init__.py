"""Transactions: half messages, which consumers see when their producers commit them, and checks when nobody does.

`table.py` decides (pure): which half messages are open, when their group is asked about each, whom, and when one is
given up. `records.py` (pure) has what is stored of them, and why a loss of power publishes nothing twice. `half_log.py`
stores it, and finds again after a restart what is open. `service.py` takes half messages and ends them, `checks.py`
asks about those that nobody has ended, and answers operators.

Read in this order: table, service, records, half_log, checks. Other rooms may import `Transactions`: searches tell the
state of half messages. A broker can be without this room: then it refuses half messages.
"""
