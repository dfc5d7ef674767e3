"""`rlab group`: list, show, explain, set, reset and delete consumer groups.

command.py         list, show, delete: owners, targets, lag and a summary line of a group
why.py             why a queue moved, and why a message came twice or never
history.py         the rebalances of a group, as they were and as they happen
reset.py           reset offsets, also while the group consumes
offsets.py         the offsets of a group out into a file, and in again
settings.py        let a group consume or not, and say how it retries
mode.py            pull or pop, for groups whose queues a broker assigns
dead_letters.py    list, show and re-send dead-letter messages

Most commands call the cluster through `client/admin` (`cli.ask.ask_cluster`) and print the result; the first two
read a trace (`cli/trace/events.py`). No other room imports from here.
"""
