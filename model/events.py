"""Event: one flat record of a state change that matters to a rebalance.

Broker, client, simulation and the Spark pipeline share this schema. `cause` is the id of the root trigger: it is
created where a change starts (a member joins, a route changes) and travels with heartbeats, notifications and requests,
so all events of one change have one id, and no reader has to infer the cause from times.

    cause = "<node>/<seq>" of the event that started it, for instance "10.0.0.5@1234#7f/17"
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class EventKind(StrEnum):
    """Kinds of events; docs/events.md has a row for each."""

    CLIENT_START = "CLIENT_START"
    CLIENT_STOP = "CLIENT_STOP"
    CONSUMER_SUSPENDED = "CONSUMER_SUSPENDED"
    MEMBER_JOIN = "MEMBER_JOIN"
    MEMBER_LEAVE = "MEMBER_LEAVE"
    MEMBER_AWAY = "MEMBER_AWAY"
    MEMBER_BACK = "MEMBER_BACK"
    SUBSCRIPTION_CHANGE = "SUBSCRIPTION_CHANGE"
    GROUP_SETTINGS_CHANGED = "GROUP_SETTINGS_CHANGED"
    GROUP_INCONSISTENT = "GROUP_INCONSISTENT"
    CLIENT_ID_CONFLICT = "CLIENT_ID_CONFLICT"
    NOTIFY_SENT = "NOTIFY_SENT"
    NOTIFY_RECEIVED = "NOTIFY_RECEIVED"
    REBALANCE_BEGIN = "REBALANCE_BEGIN"
    REBALANCE_END = "REBALANCE_END"
    ASSIGNMENT_MADE = "ASSIGNMENT_MADE"
    QUEUE_ACQUIRED = "QUEUE_ACQUIRED"
    QUEUE_DROPPED = "QUEUE_DROPPED"
    QUEUE_RELEASED = "QUEUE_RELEASED"
    LOCK_GRANTED = "LOCK_GRANTED"
    LOCK_REFUSED = "LOCK_REFUSED"
    LOCK_EXPIRED = "LOCK_EXPIRED"
    FIRST_PULL = "FIRST_PULL"
    FIRST_MESSAGE = "FIRST_MESSAGE"
    MESSAGES_HANDED_OUT = "MESSAGES_HANDED_OUT"
    LISTENER_TIMED_OUT = "LISTENER_TIMED_OUT"
    MESSAGES_UNDECODABLE = "MESSAGES_UNDECODABLE"
    OFFSET_COMMITTED = "OFFSET_COMMITTED"
    OFFSET_RESET = "OFFSET_RESET"
    OFFSET_MOVED = "OFFSET_MOVED"
    MESSAGES_DELETED = "MESSAGES_DELETED"
    MESSAGES_DAMAGED = "MESSAGES_DAMAGED"
    MESSAGES_REDELIVERED = "MESSAGES_REDELIVERED"
    DEAD_LETTER = "DEAD_LETTER"
    MESSAGE_RECALLED = "MESSAGE_RECALLED"
    HALF_STORED = "HALF_STORED"
    TRANSACTION_COMMITTED = "TRANSACTION_COMMITTED"
    TRANSACTION_ROLLED_BACK = "TRANSACTION_ROLLED_BACK"
    TRANSACTION_CHECKED = "TRANSACTION_CHECKED"
    TRANSACTION_GIVEN_UP = "TRANSACTION_GIVEN_UP"
    ROUTE_CHANGED = "ROUTE_CHANGED"
    REPLICA_JOINED = "REPLICA_JOINED"
    REPLICA_IN_SYNC = "REPLICA_IN_SYNC"
    REPLICA_REMOVED = "REPLICA_REMOVED"
    MASTER_ELECTED = "MASTER_ELECTED"
    MASTER_DEPOSED = "MASTER_DEPOSED"
    HANDOVER = "HANDOVER"
    LOG_CUT = "LOG_CUT"
    BROKER_UP = "BROKER_UP"
    BROKER_DOWN = "BROKER_DOWN"
    ACCESS_REFUSED = "ACCESS_REFUSED"
    FAULT_BEGAN = "FAULT_BEGAN"
    FAULT_DONE = "FAULT_DONE"
    FAULT_HEALED = "FAULT_HEALED"


class Event(NamedTuple):
    """One record; fields that do not apply are "" or -1, so that every event has the same columns.

    Attributes:
        t_ms: wall clock in milliseconds (a float: microseconds matter when pauses are measured).
        node: name of the broker, or client id, that recorded it.
        seq: number of the event on that node: the first run of a broker counts from 1, its next run from the next
            billion plus 1 (`RUN_SEQS`), each run of a client from a billion chosen at random plus 1, so that no two
            events have one id. A gap means that events were lost.
        group, topic, broker, queue_id, client: its subject.
        version: depends on the kind: the group version, the fencing token of a lease, or the version of an assignment
            by a broker.
        n: a count (members, queues moved, ...).
        detail: a reason or trigger name, for instance "close" or "NOTIFY".
    """

    t_ms: float
    node: str
    seq: int
    kind: str
    cause: str = ""
    group: str = ""
    topic: str = ""
    broker: str = ""
    queue_id: int = -1
    client: str = ""
    version: int = -1
    offset: int = -1
    n: int = -1
    detail: str = ""

    @property
    def id(self) -> str:
        """The id that other events name as their cause when this one is the root."""
        return f"{self.node}/{self.seq}"
