"""TLS: certificates of servers, what clients trust, and handshakes in progress.

`certificates` has the context of a server, from files or made in memory, `trust` the certificates that clients accept
and show, `mismatch` finds out whether a server uses TLS. Where all connections are encrypted, `arrivals` counts the
handshakes in progress. Where a client may choose, `on_demand` finds out by the first byte of a connection, and puts a
`layer` under it.
"""
