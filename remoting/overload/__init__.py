"""Overload: a server that is late sorts its requests, and refuses or forgets some; its clients pause together.

`admission` decides which requests a late server serves next, and `remoting/server.py` measures how late it is and acts.
`retry_budget` decides when a client asks a server again that refused it, and `remoting/client.py` waits.
`frame_budget` decides which large frames a server takes at a time; `frame_under_way` is the one of a connection, and
`inbox` what a connection has read and not handled yet; `remoting/connection.py` uses both.
`peer_memory` sums up what all peers leave unanswered and unread, `addresses` the connections of each address.
`keepalive` has the system look for vanished peers, and `probe` asks a server that does not answer for a sign of life.
Nothing else imports this room, but for `keepalive`; docs/failures.md has what users see, docs/limits.md the numbers.
"""
