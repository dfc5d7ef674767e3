"""The `rlab` command line, the only package that starts daemons.

`main.py` collects the commands; each room or module registers its own. Read `main.py`, `options.py` (shared options and
where their values come from) and `ask.py` (calls of the admin API), then any command. `process/start.py` has the first
moments of a process, `process/runtime.py` its event loop, signals and exit codes, `process/output.py` tables and JSON.

group/             admin commands: one question to the cluster each
messages/          topics; produce, consume, find and show messages
servers/           daemons: name server, broker, and a whole cluster of child processes
trace/             reports, what-if and strategy comparison, on Spark
testbed/           what tests, measures and shows a cluster; it runs in the package `testbed`
"""
