"""Explains a group: why a queue moved, and why a message came twice, or never, from the events of a trace.

Everything here decides. A cause travels with all that it sets off, so an explanation follows it and guesses nothing;
only where a member was not notified, and its timer found out, the change that it had missed has to be looked up.

    causes.py     which change of the world a pass is due to, and how its member learned of it
    moves.py      the way of a queue from one owner to the next, stage by stage
    messages.py   the deliveries of one message, and what speaks for its never having come
    words.py      both, and their causes, in words

Read `moves.py`, then `causes.py`. Which owner a queue has, and which causes are one change, is what the figures say.
"""
