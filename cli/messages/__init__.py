"""`rlab produce`, `consume`, `topic`, `message` and `producer`: topics, messages and producer groups.

Each file has the commands that it is named after. `message_document` of `consume.py` is the JSON document of a message
everywhere; begin there.
"""
