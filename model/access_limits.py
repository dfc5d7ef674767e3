"""The bounds and intervals of access control, each with its reason; `limits.py` has all others, and their rules."""

from __future__ import annotations

MAX_USERS = 10_000
"""Users of an access file, which is read again as a whole when it changes."""
MAX_RECORD_BYTES = 256 * 1024
"""Payload of one signed record: so much is kept before its signature can be checked."""
MAX_GREETING_BYTES = 2 * 1024
"""Longest frame of a client that has not proved a key: a user's name and a nonce."""
UNAUTHENTICATED_S = 5.0
"""How long a client may take to prove one; a client of ours takes two round trips."""
MAX_UNAUTHENTICATED = 1_024
"""Connections of clients that have not yet: a thousand clients that come back together after a restart fit."""
MAX_UNAUTHENTICATED_OF_ADDRESS = 768
"""The same from one address, so that others find a place; clients that are turned away come again."""
MAX_TLS_HANDSHAKES = 1_024
"""TLS handshakes under way; for the next one the oldest is cut, which a client would have ended long ago."""
MAX_TLS_HANDSHAKES_OF_ADDRESS = 768
"""The same from one address, so that it cuts its own ones, and those of others have their time."""
MAX_REFUSALS_OF_GUEST = 8
"""Requests of such a client that are refused before its connection is closed."""
MAX_REFUSALS_TOLD_PER_S = 10
"""Refusals of a server that become a log line and an event; all are counted."""
ACCESS_RELOAD_S = 2.0
"""How often a server looks whether its access file or its certificates have changed."""
MAX_PERMITTED = 10_000
"""Requests of a user that are remembered as allowed; then they are checked again."""
CLAIM_KEPT_S = 300.0
"""How long a client id belongs to its user after its last connection: longer than most sessions; members are asked."""
MAX_IDS_OF_CONNECTION = 64
"""Client ids that one connection holds; a client has one, and a task of Spark one query."""
MAX_CLAIMS_OF_USER = 20_000
"""Client ids of one user: twice the members of the largest group."""
MAX_QUERIES_OF_USER = 2_500
"""Queries of sinks whose owner a broker keeps, of one user: a quarter of those that it remembers. With one more the
user's oldest has no owner any more."""
QUOTA_BURST_S = 1.0
"""So much of its quota a user may use at once."""
