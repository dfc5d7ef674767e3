"""The bounds and intervals of access control, each with its reason; `limits.py` has the rules of names."""

from __future__ import annotations

MAX_USERS = 10_000
"""Users of an access file; the whole file is read again when it changes."""
MAX_RECORD_BYTES = 256 * 1024
"""Payload of one signed record: a receiver buffers this much before it can check the signature."""
MAX_GREETING_BYTES = 2 * 1024
"""Longest frame of a client that has not proved a key: a user's name and a nonce."""
UNAUTHENTICATED_S = 5.0
"""How long a client may take to prove its key; our clients take two round trips."""
MAX_UNAUTHENTICATED = 1_024
"""Connections of clients that have not proved a key: a thousand clients that return together after a restart fit."""
MAX_UNAUTHENTICATED_OF_ADDRESS = 768
"""Connections without a proved key from one address: other addresses find a place, and refused clients try again."""
MAX_TLS_HANDSHAKES = 1_024
"""TLS handshakes in progress; the next one closes the oldest, which a real client would have finished long ago."""
MAX_TLS_HANDSHAKES_OF_ADDRESS = 768
"""TLS handshakes in progress from one address: with one more, its own oldest is closed, and no handshake of others."""
TLS_HANDSHAKES_OF_ADDRESS_PER_S = 500
"""TLS handshakes, on demand, that begin in a second for one address: each costs a server 0.3 ms of CPU, so all of them
15 % of a core. Further ones wait."""
MAX_TLS_GREETING_BYTES = 64 * 1024
"""Bytes of a client that begins with TLS, while the first certificate is made: a greeting has less than 2 KiB."""
MAX_REFUSALS_UNAUTHENTICATED = 8
"""Refused requests of a client without a proved key, after which its connection is closed."""
MAX_REFUSALS_REPORTED_PER_S = 10
"""Refusals of a server that become a log line and an event; all are counted."""
ACCESS_RELOAD_S = 2.0
"""How often a server checks whether its access file or its certificates have changed."""
MAX_REMEMBERED_PERMISSIONS = 10_000
"""Requests of a user that are remembered as allowed. With one more, all are forgotten, and each is checked again when
it comes."""
CLAIM_KEPT_S = 300.0
"""How long a client id belongs to its user after its last connection: longer than most sessions. The id of a
member belongs to its user as long as the member is in its group.
"""
MAX_CLAIMS_OF_CONNECTION = 64
"""Ids that one connection may hold: of its client, and of the queries whose rows it writes. A client needs one, a Spark
task one query."""
MAX_CLAIMS_OF_USER = 20_000
"""Client ids of one user: twice the members of the largest group."""
MAX_QUERIES_OF_USER = 2_500
"""Queries of sinks of one user whose owner a broker remembers: a quarter of all that it remembers. With one more, the
user's oldest query loses its owner.
"""
QUOTA_BURST_S = 1.0
"""Seconds of its quota that a user may use at once."""
