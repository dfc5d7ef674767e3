"""The time of a message: the functions in which client and broker spend their CPU time.

    rlab bench send-64 consume --profile FILE

sampler          counts, at each tick of the CPU clock, the function that runs; starts and stops with the measured part
profiled         a server with a sampler, in a process of its own
table            CPU time of a message by process, room and function, as Markdown (pure)
measure          the measurements: the clients in this process, the servers beside it

A sampler and not `cProfile`, which adds its own time to every call, and so makes many small functions look expensive.
Read `table`, then `measure`.
"""
