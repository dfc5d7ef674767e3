"""`rlab group`: list, show, set, reset and delete consumer groups.

command.py         list, show, delete: owners, targets, lag and a summary line of a group
reset.py           reset offsets, also while the group consumes
settings.py        let a group consume or not, and say how it retries
mode.py            pull or pop, for groups whose queues a broker assigns
dead_letters.py    list, show and re-send dead-letter messages

Each command calls the cluster through `client/admin` (`cli.runtime.ask_cluster`) and prints the result. No other room
imports from here.
"""
