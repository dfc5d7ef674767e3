"""`rlab bench`: rates, latencies and memory of a cluster on this machine, and the time a group takes to converge.

Figures of another machine say little, so message rates are measured against a bare echo in the same run
(`kit/echo.py`), round by round in turns (`kit/rounds.py`). Read these two first, then any benchmark.

catalog             every benchmark by its name; `cli/testbed/bench.py` has the options and the table
disk/               the store: sends with and without files, recovery, cold reads, memory; uses throughput/
throughput/         sends, pulls, pops, ordered consumption, pull against pop
rebalance/          joins, moves, stalls, memory of members, the sticky strategy
peers/              the same work done by Redis, NATS and Kafka
rocketmq            one life of a group with RocketMQ's Java client and with ours, in a checkout
spark               the source and the sink of `pipeline`
kit/                servers in processes, consumers, rounds, results

`kit` imports none of the others, and only `catalog` knows all benchmarks.
"""
