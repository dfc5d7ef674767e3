"""A run that is not a programme of `testbed/simulation/engine`: damaged files of brokers.

`damage.py` fills a broker, damages a file of it (`testbed/simulation/faults/damage.py`), starts it again, and compares
the remaining messages with the acknowledged ones and with the reported losses. It is run with `python -m`, also by
`rlab crash`. No other room imports from here.
"""
