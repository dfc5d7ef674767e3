"""Explains a group from the events of a trace: why a queue moved, and why a message was delivered twice, or never.

All modules are pure. Every event carries the cause that triggered it, so an explanation follows the cause without
guessing. Only if a member was not notified, and its timer detected the change, the missed change has to be searched
for.

    causes.py     the change of the world that caused a pass, and how its member noticed it
    moves.py      the move of a queue from one owner to the next, stage by stage
    messages.py   the deliveries of one message, or why there was none
    words.py      both, and their causes, in words

Read `moves.py`, then `causes.py`. The figures define the owner of a queue, and the causes that are the same change.
"""
