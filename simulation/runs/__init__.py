"""Runs that are no programmes of `simulation/engine`: damaged files of brokers, and transactions under faults.

`damage.py` fills a broker, damages a file of it (`simulation/faults/damage.py`), starts it again, and compares what is
left with what was acknowledged and with what was reported. `transactions.py` runs seeds of transactions under random
faults, by `scenario.py`. Each is run with `python -m`; `rlab crash` runs the first. No other room imports from here.
"""
