"""The name, kind, labels and help of every metric. Pure.

The names of counters lack the suffix `_total`, because prometheus-client adds it in the exposition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

MAX_QUEUE_SERIES = 20_000
"""Maximum number of series by group and queue in a scrape; the other queues are only in the sums by group and topic."""
MAX_GROUP_LABELS = 1_000
"""Maximum number of groups with their own counters; further groups are counted together as OTHER_GROUPS."""
OTHER_GROUPS = "(others)"

LATENCY_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)
BALANCE_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Kind(StrEnum):
    """Kinds of metrics, by their names in the exposition."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: all series that differ only in their labels."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()  # of a histogram, in seconds

    @property
    def sample_name(self) -> str:
        """The name of its samples in queries."""
        return self.name + {Kind.COUNTER: "_total", Kind.GAUGE: "", Kind.HISTOGRAM: "_bucket"}[self.kind]


Samples = tuple[Family, Iterable[tuple[Sequence[str], float]]]
"""A counter or gauge with its series: the label values and the value of each."""


def _counter(name: str, help_: str, *labels: str) -> Family:
    return Family(f"rlab_{name}", Kind.COUNTER, help_, labels)


def _gauge(name: str, help_: str, *labels: str) -> Family:
    return Family(f"rlab_{name}", Kind.GAUGE, help_, labels)


def _histogram(name: str, help_: str, *labels: str, buckets: tuple[float, ...] = LATENCY_BUCKETS_S) -> Family:
    return Family(f"rlab_{name}", Kind.HISTOGRAM, help_, labels, buckets)


# --- every server and client ------------------------------------------------------------------------------------------

INFO = _gauge("info", "1; the labels say which node this is.", "kind", "name", "version")
UPTIME = _gauge("uptime_seconds", "Time since the start.")
LOOP_DELAY = _histogram("event_loop_delay_seconds", "Delay with which the event loop woke a task.")
EVENTS = _counter("events", "Events of this node by kind (docs/events.md).", "kind")
EVENTS_DROPPED = _counter("events_dropped", "Events that were lost before the topic SYS_TRACE.")

# --- brokers and name servers -----------------------------------------------------------------------------------------

REQUESTS = _histogram(
    "request_seconds",
    "Time from a request to its answer, by request code and response code. A pull or a pop may wait for messages.",
    "code",
    "result",
)
CONNECTIONS = _gauge("connections", "Open connections of clients.")
REFUSED = _counter("refused", "Requests and connections that access control refused (docs/security.md).", "reason")
WAITING_REQUESTS = _gauge("waiting_requests", "Requests that wait because the server is overloaded (docs/failures.md).")

# --- name servers -----------------------------------------------------------------------------------------------------

BROKERS = _gauge("brokers", "Registered brokers.")
BROKERS_ABSENT = _gauge(
    "brokers_absent", "Brokers that left without unregistering since the start, and have not returned."
)
ROUTES = _gauge("routes", "Topics that have a route.")
REPLICA_SETS = _gauge("register_sets", "Sets of replicas in the register (docs/replication.md), if it is kept here.")
REGISTER_FAILS = _gauge("register_fails", "1 while the file of the register cannot be read or written, else 0.")
REGISTER_WRITES = _counter(
    "register_writes",
    "Writes to the register: written, changed (the row has another version), refused (by a rule), or failed.",
    "result",
)

# --- brokers: messages and storage ------------------------------------------------------------------------------------

MESSAGES_STORED = _counter("messages_stored", "Messages stored since the topic was created.", "topic")
MESSAGES_KEPT = _gauge("messages_kept", "Messages that are still stored.", "topic")
MESSAGES_DAMAGED = _gauge("messages_damaged", "Messages that are known to be damaged or missing.", "topic")
SHARES_REFUSED = _counter(
    "shares_refused",
    "Refused additions to a table, because a user or address had used up its share (docs/limits.md).",
    "table",
)
LARGEST_SHARE = _gauge(
    "largest_share_ratio", "Largest used part of the share that one user or address has of a table.", "table"
)
STORE_WRITTEN = _counter("store_written_bytes", "Bytes appended to the log since it was created.")
STORE_BYTES = _gauge("store_bytes", "Bytes of the log that are still stored.")
STORE_HELD = _gauge("store_held_bytes", "Bytes of the log beyond its limits, kept because a group still needs them.")
STORE_UNSYNCED = _gauge("store_unsynced_bytes", "Bytes of the log that were written and not synced to the disk yet.")
STORE_SYNC_RUNNING = _gauge(
    "store_sync_running_seconds", "How long the sync of the log that runs has taken; a disk that hangs does not end it."
)
STORE_SEGMENTS = _gauge("store_segments", "Segments of the log.")
DISK_FREE = _gauge("disk_free_bytes", "Free space of the file system that holds the data directory.")
DISK_FULL = _gauge("disk_full", "1 while sends are refused because the disk is full.")

# --- brokers: copies --------------------------------------------------------------------------------------------------

REPLICA_ROLE = _gauge(
    "replica_role", "1; the label has the role of this replica: master, following or waiting.", "role"
)
REPLICA_EPOCH = _gauge("replica_epoch", "Number of the newest mastership of the set that this replica knows.")
REPLICAS_IN_SYNC = _gauge("replicas_in_sync", "Replicas of the set in sync, the master counted, as this replica knows.")
REPLICAS_WANTED = _gauge("replicas_wanted", "Replicas that the set should have, the master counted.")
REGISTER_ANSWERS = _gauge("replica_register_answers", "1 while the register of the set answers this replica, else 0.")
REPLICA_POSITION = _gauge("replica_position_bytes", "Log position behind the newest byte of this replica.")
REPLICA_LAG = _gauge("replica_lag_bytes", "Bytes of the log that a replica lacks, as the master knows.", "replica")
REPLICA_LAG_TIME = _gauge(
    "replica_lag_seconds", "Age of the oldest write that a replica has not confirmed to the master.", "replica"
)
REPLICA_LEASE = _gauge("replica_lease_seconds", "How long a master serves without a confirmation of the others.")
REPLICA_LEASE_MARGIN = _gauge(
    "replica_lease_margin_seconds",
    "The least of the lease that was left when the master renewed it, in the last two minutes.",
)
REPLICA_LEASE_LAPSES = _counter(
    "replica_lease_lapses", "How often the lease of this master has ended, so that it served nothing."
)

# --- brokers: groups --------------------------------------------------------------------------------------------------

MEMBERS = _gauge("group_members", "Members of a group, as this broker knows it.", "group")
MEMBERS_JOINED = _counter("group_members_joined", "Members that joined a group on this broker.", "group")
MEMBERS_LEFT = _counter("group_members_left", "Members that left a group on this broker.", "group", "reason")
NOTIFICATIONS = _counter("group_notifications", "Notifications of a changed group, sent to members.", "group")
LEASES_HELD = _gauge("leases_held", "Queues of this broker that a member of the group owns.", "group")
LEASES_GRANTED = _counter("leases_granted", "Leases granted or confirmed to their owner.", "group")
LEASES_REFUSED = _counter("leases_refused", "Leases refused, because another member owns the queue.", "group")
LEASES_EXPIRED = _counter("leases_expired", "Leases that ended without a release.", "group")
MOVES = _counter("queue_moves", "Leases granted to another member than the last owner, retry topics left out.", "group")
REDELIVERED = _counter("messages_redelivered", "Messages that were scheduled for redelivery.", "group")
DEAD_LETTERS = _counter("dead_letters", "Messages that were sent to the dead-letter queue.", "group")
LAG = _gauge(
    "group_lag",
    "Messages from the committed offset to the end, summed over the queues of a topic on this broker.",
    *("group", "topic"),
)
QUEUE_LAG = _gauge(
    "queue_lag", "Messages from the committed offset of a queue to its end.", *("group", "topic", "queue")
)
HELD_PULLS = _gauge("held_pulls", "Pulls that wait for messages.")
HELD_POPS = _gauge("held_pops", "Pops that wait for messages.")
POPPED = _gauge("popped_messages", "Messages that were popped and not acknowledged yet.")
PRODUCERS = _gauge("producers", "Producers that sent a heartbeat.")

# --- clients ----------------------------------------------------------------------------------------------------------

OWNED_QUEUES = _gauge("client_owned_queues", "Queues that the consumers of this process own.", "group")
HANDED_OUT = _counter("client_messages_handed_out", "Messages dispatched to listeners.", "group")
WAITED = _counter(
    "client_messages_waited_seconds", "Time from storing to dispatching, summed over the messages dispatched.", "group"
)
SEND_TIME = _histogram(
    "client_send_seconds", "Time of a `Producer.send` with all its attempts, by result: sent or failed.", "result"
)
LISTENER_TIMEOUTS = _counter("client_listener_timeouts", "Messages whose listener did not return in time.", "group")
PASSES = _counter("client_rebalance_passes", "Rebalance passes by their triggers.", "group", "trigger")

# --- the exporter: groups of a whole cluster --------------------------------------------------------------------------

GROUP_MEMBERS = _gauge("cluster_group_members", "Members of a group.", "group")
GROUP_ORPHANS = _gauge("cluster_group_orphans", "Queues without an owner that a member wants.", "group")
GROUP_REBALANCES = _counter("cluster_group_rebalances", "Rebalances that moved a queue.", "group")
GROUP_MOVES = _counter("cluster_group_moves", "Queues that moved to another member.", "group")
GROUP_NEEDED = _counter("cluster_group_moves_needed", "The fewest moves that the rebalances needed.", "group")
GROUP_HANDED_OUT = _counter("cluster_group_messages_handed_out", "Messages dispatched to listeners.", "group")
GROUP_DUPLICATES = _counter("cluster_group_duplicates", "Messages dispatched again after a move.", "group")
GROUP_ORPHAN_TIME = _counter("cluster_group_orphan_seconds", "Time for which queues had no owner, summed.", "group")
GROUP_DOUBLE_TIME = _counter(
    "cluster_group_double_owner_seconds", "Time for which queues had two owners, summed.", "group"
)
GROUP_PAUSE_TIME = _counter(
    "cluster_group_pause_seconds", "Time for which moved queues were not read, summed.", "group"
)
GROUP_BALANCE = _histogram(
    "cluster_group_balance_seconds",
    "Time to balance of rebalances that are over and moved a queue, by the kind of their cause.",
    *("group", "cause"),
    buckets=BALANCE_BUCKETS_S,
)
TRACE_LATE = _counter("exporter_late_events", "Events that arrived after later ones had been counted.")
TRACE_READ = _counter("exporter_events", "Events read.")
TRACE_MISSING = _gauge(
    "exporter_brokers_missing", "Brokers whose part of the trace cannot be read: the figures of groups lack it."
)


def families() -> Iterator[Family]:
    """Yield every metric, in the order of this file."""
    for value in globals().values():
        if isinstance(value, Family):
            yield value
