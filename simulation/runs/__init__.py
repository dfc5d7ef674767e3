"""Programs that put a cluster under load and faults and check what it promises; each is run with `python -m`.

`torture.py` runs rounds of faults for an hour and looks for leaks. `order.py` and `pop.py` run many seeds of ordered
and of POP groups; `scenario.py` is what they share. `power_cuts.py` cuts the power of brokers, `damage.py`
damages their files. Checkers are in `simulation/checks`.
"""
