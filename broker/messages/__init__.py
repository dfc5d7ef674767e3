"""Messages: producers send them, members pull them, and operators look them up by key or id.

`parked.py` (pure) holds the pulls and pops that found nothing, and decides which one a new message wakes.
`search_keys.py` (pure) decides by which keys a stored message is found. `send.py`, `pull.py` and `query.py` serve the
requests; each is a feature. Sends and pulls are the hot paths of a broker: their cost was measured, line by line.

Read in this order: send, then `broker/durability/barrier.py`, which answers sends; parked, pull, query, search_keys.
Other rooms may import `parked.py` (POP parks its requests in the same table) and nothing else.
"""
