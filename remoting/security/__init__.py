"""Access control and TLS: who is at the other end of a connection, and what that user may do.

`key` is a client's secret and its hash in a server's file, `handshake` the proof that the client has the secret and the
server the hash, `records` the signatures of all later bytes. `policy` has the rights of each user, `right_fields` the
rights that a request takes, `claims` the owner of each client id. `gate` is the shell on the side of the server,
`login` on the side of the client; without a gate, `new_connections` closes connections that ask for nothing. The room
`tls` has certificates and handshakes.

Read `key`, `handshake`, `records`, `policy`, `right_fields`, `gate`, in this order.
"""
