"""The engine of `rlab sim`: programmes of timed faults on a simulated cluster, each with a load and a verdict.

`programme.py` has the records of a programme and their checks, `verbs.py` the verbs of its steps, `text.py` the TOML
form and the test, `draw.py` draws programmes from seeds, and `shrink.py` makes one small. These modules decide and run
nothing. `run.py` runs one programme: `load.py` has its clients, `acts.py` does its steps, `checkers.py` passes all
events and messages to the checkers, and `pops.py` the acknowledgements of POP and all that clients of RocketMQ 5 do.
`transactions.py` decides how each transaction must end, `rest.py` detects leaks, and `sets/` is about brokers with
copies. `sweep.py` runs many programmes.

Read `programme.py` first, then `run.py`. Other rooms use `programme.py`, `text.py`, `draw.py` and `run.py`.
"""
