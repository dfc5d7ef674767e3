"""Benchmarks of messages per second, against the bare echo: send, pull, consume, pop, order, transactions.

Read `send.py` first; its workers and rounds are the pattern of the others. `pull.py` has the filled cluster that
`pop.py` uses as well. `transactions.py` compares transactions with plain sends, and leaves many open. `trace_cost.py`
measures the cost of the trace, and `security_cost.py` the cost of access control and of TLS. `half_away.py` sends while
one of two brokers is stopped. `contrast.py` compares pull and pop in virtual time, and `contrast_chart.py` draws it for
the documentation.
"""
