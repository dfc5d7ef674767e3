"""Transactions: half messages, which consumers see when their producers commit them, and checks of the open ones.

`table.py` decides (pure): which half messages are open, when which producer of the group is asked about each, and when
one is abandoned. `records.py` (pure) has the stored records, and why a loss of power publishes nothing twice.
`half_log.py` stores them, and finds the open half messages after a restart. `service.py` stores half messages and ends
them, `checks.py` asks producers about the open ones, and answers operators.

Read in this order: table, service, records, half_log, checks. Other rooms may import `Transactions`: searches show the
state of half messages. A broker can be without this room: then it refuses half messages.
"""
