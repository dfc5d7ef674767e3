"""The doctor: looks at a running cluster twice, and lists what is wrong, why, and what to do.

    snapshot.py   records of what was seen: name servers, brokers, groups twice, events
    rules.py      decides (pure): from a snapshot to diagnoses, one rule for each kind of subject
    troubles.py   the name of each trouble, and what to do about it (pure)
    look.py       looks: asks name servers and brokers, and reads the trace

Read `rules.py` first. `rlab doctor` prints what it returns.
"""
