"""The `rlab` command line, the only package that starts daemons.

`main.py` collects the commands; each room or module registers its own. Read `start.py` (the first moments of a
process), `main.py`, `options.py` (shared options and where their values come from), `variables.py` (those of the
environment), `runtime.py` (event loop, signals, exit codes, calls of the admin API) and `output.py` (tables, JSON,
notes), then any command.

group/             admin commands: one question to the cluster each
messages/          topics; produce, consume, find and show messages
servers/           daemons: name server, broker, and a whole cluster of child processes
swarm/, demo/      a group under load on a given or an embedded cluster, with checks
crash/             real brokers that are killed under load, and an audit
bench/             measurements
trace/             reports, what-if and strategy comparison, on Spark
"""
