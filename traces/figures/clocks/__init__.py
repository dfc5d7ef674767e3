"""The clocks of the nodes of a trace: the error of each, and the events with the times of a right clock.

Each node writes its events with the clock of its own machine. An effect on one node happens after its reason on another
node, whatever the two clocks show: a queue is acquired after its lease was granted, and a lease is released after its
owner has dropped the queue. Pairs in both directions give the difference of two clocks to a few milliseconds; the
numbers of the events show where a clock was set back.

    pairs.py      finds pairs of events, a reason and its effect
    course.py     the offset of one clock over time, from the bounds of its pairs
    solve.py      finds the right clocks, and the course of each other clock
    clocks.py     reads the events of a trace, and returns their right times
    live.py       the same for a trace that grows

Read `course.py`, then `clocks.py`. Other rooms import only `clocks.py` and `live.py`.
"""
