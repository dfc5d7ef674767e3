"""Overload: a server that is late sorts its requests, and refuses or forgets some; its clients pause together.

`admission` decides which requests a late server serves next, and `remoting/server.py` measures how late it is and acts.
`retry_budget` decides when a client asks a server again that refused a request, and `remoting/client.py` waits.
`frame_budget` decides which large frames a server receives at a time; `incomplete_frame` is the incomplete frame of a
connection, `inbox` the commands that a connection has read and not handled yet; `remoting/connection.py` uses both.
`peer_memory` sums the unanswered and unread bytes of all peers, `addresses` counts the connections of each address.
`keepalive` makes the system probe for vanished peers, `probe` asks a server that does not answer for a sign of life,
and `silence` asks the peers of a server for one, where their protocol has a ping (`lifecycle`). Nothing else imports
this room, except `keepalive`; docs/failures.md describes the effects for users, docs/limits.md has the numbers.
"""
