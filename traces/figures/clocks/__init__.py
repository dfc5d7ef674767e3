"""The clocks of the nodes of a trace: how far each is off, and the events in the times of a right clock.

Each node writes its events with the clock of its own machine. What happened on one node because of what happened on
another is later, whatever the two clocks say: a queue is acquired after its lease was granted, and a lease is released
after its owner has dropped the queue. From such pairs in both directions follows how far two clocks are apart, to a few
milliseconds; the numbers of the events show where a clock was set back.

    pairs.py      finds pairs of events of which one is the reason of the other
    course.py     the offset of one clock over time, from the bounds that its pairs give
    solve.py      which clocks are right, and the course of each other one
    clocks.py     reads the events of a trace, and answers with their right times
    live.py       the same for a trace that grows

Read `course.py`, then `clocks.py`. Others import `clocks.py` and `live.py` only.
"""
