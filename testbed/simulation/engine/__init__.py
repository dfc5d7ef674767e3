"""The engine of `rlab sim`: programmes of timed faults on a simulated cluster, each with a load and a verdict.

`programme.py` has the records of a programme and their checks, `verbs.py` the verbs of its steps, `text.py` the TOML
form, `draw.py` draws programmes from seeds, `shrink.py` makes one small, and `as_test.py` writes it as a test. These
decide. `run.py` runs one programme: `load.py` has its clients, `acts.py` does its steps, `judge.py` passes everything
that happens to the checkers, `pops.py` the hidden acts of POP, `transactions.py` has the books of
transactions, `rest.py` counts what could leak. `sweep.py` runs many.

Read `programme.py` first, then `run.py`. Other rooms use `programme.py`, `text.py`, `draw.py` and `run.py`.
"""
