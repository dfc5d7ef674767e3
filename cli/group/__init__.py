"""`rlab group`: list, show, reset and delete consumer groups.

command.py         list, show, delete: owners, targets, lag and a summary line of a group
reset.py           reset offsets, also while the group consumes
mode.py            pull or pop, for groups whose queues a broker assigns
dead_letters.py    list, show and re-send dead-letter messages

Each command is one question to the cluster through `client/admin` (see `cli.runtime.ask`) and its output. No other room
imports from here.
"""
