"""Parts that several benchmarks use.

rounds              rounds of a fixed time, in turns with their baseline; medians and percentiles
echo                the baseline: a bare echo of the same frames
report              the record of a figure, its goal, and the rows of the table
processes           name server, brokers, echo and members, each in a process of its own (`member.py` is one)
consumers           many consumers in this process, with the queues they should own
convergence         detects, by events, that all of them own exactly these
filling             fills a topic
host_share          CPU time that the host of a virtual machine gave to others
"""
