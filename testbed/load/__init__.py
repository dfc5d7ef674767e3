"""Load on a cluster: producers that send numbered messages, and consumers of one group that come and go.

body.py       message bodies that begin with their number (pure)
pace.py       turns to send: at a steady rate, or at any time during a surge
generator.py  producers and consumers; a subclass chooses the messages, and records the results
grpc.py       a client of RocketMQ's gRPC service, call by call

`rlab swarm`, `rlab demo` and `make soak` run `testbed/swarm/members.py`, `rlab crash` runs `testbed/crash/load.py`.
Programmes of `rlab sim` use the bodies alone, because each step of their clients comes from the seed. Read
`generator.py` first.
"""
