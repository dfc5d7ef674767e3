"""The bounds and intervals of sets of replicas: register, stream, lease and routes; `limits.py` has the rules of names.

The docstring below a constant belongs to it; the docstring below several constants belongs to all of them.
"""

from __future__ import annotations

MAX_REPLICAS = 8
"""Members of one set. Each send waits for the slowest replica in sync; three copies are common, five are many."""
MAX_REPLICA_SETS = 1_024
"""Rows of one register, one for each broker name with copies: a quarter of the brokers that a name server lists."""
MAX_REPLICA_SET_BYTES = 8 * 1024
"""Encoded row with the longest name and the longest addresses of all members. All rows together fit a frame."""
MAX_SET_NUMBER = 2**62
"""Largest id, epoch, version or incarnation: SQLite and msgpack store integers of 64 bits with a sign."""
REGISTER_TIMEOUT_S = 3.0
"""How long a read or a write of the register waits for one name server, or for all members of etcd."""
MAX_ETCD_ENDPOINTS = 9
"""Members of an etcd with a register: etcd itself advises to have no more than seven, and each gets a share of the time
of a request."""
MAX_ETCD_PREFIX_CHARS = 127
"""First part of the keys of a register in etcd, which is in each of them."""
MAX_ETCD_ANSWER_BYTES = 4 * MAX_REPLICA_SETS * MAX_REPLICA_SET_BYTES
"""Longest answer of etcd that is read: all rows in base64, and as much again for keys and numbers."""

# --- the stream between replicas -------------------------------------------------------------------------------------
REPLICA_FRAME_BYTES = 128 * 1024
"""Log bytes in one frame of the stream. With 1 MiB a replica needs more than twice the CPU time for a byte, because the
buffers of a frame do not fit the cache of a core, and the system maps them each time."""
MAX_REPLICA_FRAME_BYTES = 1024 * 1024
"""Log bytes that a replica accepts in one frame: a master may send larger frames one day."""
REPLICA_CHANGES_BYTES = 8 * 1024 * 1024
"""Changes of the tables in one frame. If a flush has more, the master sends the whole tables in chunks instead."""
REPLICA_CATCH_UP_WINDOW_BYTES = 4 * 1024 * 1024
"""Bytes under way to a replica that catches up: enough to fill a fast network; a flush behind them waits only some
milliseconds."""
REPLICA_PAUSE_S = 0.002
"""Pause between two turns of a replica that catches up while messages are written: sends have their turn in it."""
REPLICA_CATCH_UP_SHARE = 2
"""In each turn the replica gets at least this many times the bytes that were written since the last one, so that it
catches up."""
REPLICA_WINDOW_BYTES = 8 * 1024 * 1024
"""Bytes under way to a replica that follows, in frames; further frames wait for acknowledgements."""
REPLICA_KEPT_BYTES = 16 * 1024 * 1024
"""Changes that the master keeps for replicas that have not been sent them; beyond it the slowest gets the tables
again. With the bytes under way and a frame in the making, a replica takes less than 32 MiB of the master's memory."""
REPLICA_MAX_LAG_BYTES = 16 * 1024 * 1024
"""Largest lag of an in-sync replica, in bytes of the log. A replica with more leaves the in-sync set, so that sends no
longer wait for it."""
REPLICA_JOIN_LAG_BYTES = 1024 * 1024
"""Log bytes that a replica may lack when the master begins to wait for it: a few milliseconds of the network."""
REPLICA_BEACON_S = 0.3
"""How often an idle master sends a frame without content, so that silence means a broken connection."""
REPLICA_SILENCE_S = 1.2
"""Time without a confirmed frame after which the connection of a replica counts as broken: four beacons unanswered."""
REPLICA_DEAD_S = 10.0
"""Silence of a replica after which the master closes its connection: a replica that is not in sync may need that long
for a write to its disk."""
MASTER_DEAD_S = 3.0
"""Silence of the master after which a replica closes the connection. It is longer than `REPLICA_SILENCE_S`: otherwise a
replica would leave the in-sync set although only the master was busy."""
REPLICA_RECONNECT_S = 0.2
"""How long the connection of an in-sync replica may be closed before it leaves the set: a broken connection is dialled
again at once, a process that was killed takes longer."""
REPLICA_START_S = 2.0
"""How long the connection may be missing after the start of a master: the other replicas still have to notice it."""
REPLICA_FRAME_TIMEOUT_S = 2.0
"""How long an in-sync replica may take to confirm a flush before it leaves the set: its disk is full, slow or hangs."""
REPLICA_REJOIN_S = 5.0
REPLICA_REJOIN_MAX_S = 60.0
"""How long a replica that had to leave has to follow before the master waits for it again; doubled each time, so that
a bad disk does not hold up sends every few seconds. A new process, and one that was in sync for the longest of these
times, begins with the first one again."""
REPLICATION_TIMEOUT_S = 2.5
"""How long a send waits for the other replicas: longer than a slow one takes to leave the set, and less than
`SEND_TIMEOUT_S`, so that the producer gets the reason. RocketMQ: slaveTimeout, 3 s."""
SNAPSHOT_CHUNK_BYTES = 256 * 1024
"""Size of a part of the tables that a joining replica gets; a single row may be longer."""
VERSIONS_OF_EPOCH = 1_000_000
"""How far the versions of groups are raised when a master begins: members may have been notified of some that no other
replica has, and ignore the same numbers later. Lease tokens are raised in the same way."""
REGISTER_POLL_S = 1.0
"""How often a master reads its row of the register, in which an operator may have elected another one."""
REGISTER_RETRY_S = 0.2
"""Pause before the next request to a register that could not be reached."""
REPLICA_REDIAL_TIMEOUT_S = 1.0
"""How long a replica waits for a connection to its master, and for the answer to its first request."""
FAILING_DISK_S = 1.0
"""How long writes to the disk of a master may fail until the master hands over: one that is full for a moment, until a
file is deleted, changes nothing. Also the pause between two attempts."""
STUCK_DISK_S = 2.0
"""How long a write or a sync may take until it is reported, and until a master with flush=sync hands over. A sound disk
takes milliseconds, a busy one tenths of a second; a replica whose disk hangs leaves its set after the same time.
"""
REPLICA_SYNC_S = 0.2
"""How long written bytes of a replica may stay unsynced with flush=async, as those of a master."""
MAX_REPLICA_EPOCHS = 1_000
"""Epochs in the history of a log that a replica sends to its master: one for each change or restart of a master."""
SEGMENT_RANGE_BYTES = 4 * 1024 * 1024
"""Most bytes of a file in one answer to a replica: a quarter of a frame."""
LOG_CHECK_FIRST_S = 3_600.0
LOG_CHECK_INTERVAL_S = 86_400.0
LOG_CHECK_PAUSE_S = 1.0
"""How long a replica follows before it first reads its whole log, the interval until it does so again, and the pause
between two segments, which leaves the disk to the master's writes."""
INDEX_RETRY_S = 1.0
MAX_INDEX_TRIES = 30
"""Pause before a replica asks again for the index of a finished segment, which the master writes with its next sync;
and how often it asks. Without an index, the replica reads the segment when it becomes the master."""

# --- the lease of a master -------------------------------------------------------------------------------------------
LEASE_S = 2.0
"""How long a master may serve after it sent a frame that its replicas have confirmed. A replica becomes the master a
tenth later at the earliest, so this is most of the time that a failover takes.
"""
MIN_LEASE_S, MAX_LEASE_S = 1.0, 60.0
"""Bounds of `LEASE_S`. One event-loop iteration in ten thousand of a busy broker takes up to 0.1 s, and a full garbage
collection or a slow disk longer: with a shorter lease, sets would often change their master without need.
"""
BEACON_SHARE, SILENCE_SHARE = 0.15, 0.6
"""Shares of a lease: how often a frame is sent at least, and how long a replica may confirm none before the master
removes it. The rest is time for the compare-and-set, so that the lease does not end because of a replica that is gone.
"""

assert REPLICA_KEPT_BYTES + REPLICA_WINDOW_BYTES + 4 * REPLICA_FRAME_BYTES < 32 * 1024 * 1024, "memory of one replica"
assert REPLICA_RECONNECT_S < REPLICA_SILENCE_S < REPLICA_FRAME_TIMEOUT_S < REPLICATION_TIMEOUT_S, (
    "a replica leaves before a send that waits for it times out"
)
assert 3 * REPLICA_BEACON_S < REPLICA_SILENCE_S, "a lost answer to one beacon is not silence"
assert 3 * BEACON_SHARE < SILENCE_SHARE < 1, "with a short lease, too, one lost answer is not silence"
assert REPLICA_SILENCE_S <= SILENCE_SHARE * LEASE_S, "a replica that is gone does not end the lease"

# --- routes of a set -------------------------------------------------------------------------------------------------
MASTER_KEPT_S = 30.0
"""How long routes go on to list the last master of a set that has left, while another replica of the set is there: the
next master takes its place. Without a master in its route, messages with a key would go to other queues.
"""
MASTER_CONNECT_S = 1.0
"""How long a client waits for a connection to the master of a set: the machine at that address may be gone, and a send
has `SEND_TIMEOUT_S` for that and for its attempt at the next master.
"""
MASTER_PAUSE_S = 0.1
"""How long a send waits before it tries again: at a master that has refused it and knows no other, or for a route with
a master. A notification about the next master ends the wait.
"""
OLD_MASTER_CONNECTION_S, OLD_MASTER_QUIET_S = 0.25, 0.1
"""How long a client keeps its connection to the last master once it knows the next one, because answers may be under
way; the second is the time without any bytes after which it closes the connection earlier. A send that waits for a
hanging master has some tenths of a second left of `SEND_TIMEOUT_S` when another replica has become the master.
"""
SET_SESSION_S = 5.0
"""How long a member dispatches the messages of a set after it sent a heartbeat that the master has answered. A master
may hang, or be replaced while the member cannot reach the next one. The next master begins after the last answer of the
old one, and grants a queue of the member to another member after `SET_GRACE_S` at the earliest.
"""
SET_GRACE_S = 2 * SET_SESSION_S
"""How long a new master keeps the members and leases that it has found, at least."""
ROUTE_NOTICE_WINDOW_S = 0.5
"""At most one round of notifications about changed routes per window; the first change of a quiet time goes out at
once. Each notification makes a client ask for its routes.
"""
ROUTE_NOTICES_AT_ONCE = 256
"""Connections that a name server looks at in one event-loop iteration of a round."""
MAX_NOTICE_TOPICS = 64
"""Topics that one such notification names; for more it names none, and the client asks for all of its routes."""
ROUTE_NOTICE_SPREAD_S = 0.1
"""Clients that were notified together ask again within this time, each at a moment of its own."""
MAX_WATCHED_TOPICS_OF_ONE = 1_000
MAX_WATCHED_TOPICS = 200_000
"""Maximum number of watched topics: of one connection, and of all connections of a name server. Each takes about 100
bytes. Clients find changes of further topics by polling.
"""
