"""Runs that are no programmes of `testbed/simulation/engine`: damaged files of brokers.

`damage.py` fills a broker, damages a file of it (`testbed/simulation/faults/damage.py`), starts it again, and compares
what is left with what was acknowledged and with what was reported. It is run with `python -m`, also by `rlab crash`. No
other room imports from here.
"""
