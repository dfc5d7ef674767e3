"""Access control and TLS: who is at the other end of a connection, and what may they do.

`key` is a client's secret and its hash in a server's file, `handshake` the proof that a client has the one and its
server the other, `records` the signatures of all that is sent afterwards. `policy` says what each user may do, `needs`
what each request takes, `claims` whose a client id is. `gate` is the shell on the side of a server, `login` the one of
a client; `newcomers` closes who asks for nothing where there is no gate; `tls` has the certificates of servers,
`arrivals` their handshakes under way, `trust` what their clients accept and show.

Read `key`, `handshake`, `records`, `policy`, `needs`, `gate`, in this order.
"""
