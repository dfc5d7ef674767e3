"""Everything that runs without a real clock: a simulated network, faults, checkers, and runs that put them together.

`kernel` is the event loop in virtual time and its network. `cluster` runs the real servers and clients in it.
`faults` breaks them. `engine` runs programmes of faults and judges them, as `rlab sim` does; `runs` has the run that is
not such a programme: damaged files. `checks` decides what `traces/check` does not: POP, leaks, and whether a group has
the owners that it should have.

No package of servers and clients imports it: their code runs here unmodified.
"""
