"""The bounds and intervals of the copies of a broker, each with its reason; `limits.py` has all others."""

from __future__ import annotations

MAX_REPLICAS = 8
"""Members of one set. Each send waits for the slowest replica in sync; three copies are common, five are many."""
MAX_REPLICA_SETS = 1_024
"""Rows of one register, one for each broker name with copies: a quarter of the brokers that a name server lists."""
MAX_REPLICA_SET_BYTES = 8 * 1024
"""Encoded row with the longest name and the longest addresses of all members. All rows together fit a frame."""
MAX_SET_NUMBER = 2**62
"""Ids, epochs, versions and incarnations: SQLite and msgpack store each of them as it is."""
REGISTER_TIMEOUT_S = 3.0
"""How long a read or a write of the register waits for one name server, as any request does."""
