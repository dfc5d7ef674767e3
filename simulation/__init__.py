"""Everything that runs without a real clock: a simulated network, faults, checkers, and runs that put them together.

`kernel` is the event loop in virtual time and its network. `cluster` runs the shipped servers and clients in it.
`faults` breaks them. `checks` decides, purely, whether a run kept its promises. `runs` are the programs: torture,
order, POP, power cuts. `swarm` is not a simulation: it runs shipped clients against any cluster and uses the same
checkers.

Nothing below `simulation` knows it: what ships runs here unmodified.
"""
