"""`rlab group`: list, show, explain, set, reset and delete consumer groups.

`command.py` registers the commands of all files. Most call the cluster through `client/admin` (`cli.ask.ask_cluster`)
and print the result; `why.py` and `history.py` read a trace (`cli/trace/events.py`). No other room imports from here.
"""
