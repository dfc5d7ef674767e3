"""The doctor: inspects a running cluster twice, and lists each problem with its reason and its remedy.

    snapshot.py   the observed state: name servers, brokers, groups twice, events
    rules.py      derives diagnoses from a snapshot, one rule for each kind of subject (pure)
    copies.py     the rule about brokers with copies (pure)
    problems.py   the name and the remedy of each problem (pure)
    observe.py       queries name servers and brokers, and reads the trace

Read `rules.py` first. `rlab doctor` prints what it returns.
"""
