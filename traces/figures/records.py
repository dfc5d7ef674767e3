"""The figures by name: an ownership, a rebalance, the totals of a group. Pure.

Times are wall clock in milliseconds, as in the events. A difference between times of two nodes is as exact as their
clocks agree. Queues of retry topics are left out everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from model.events import Event


def order_of(event: Event) -> tuple[float, bool, str, int]:
    """Sort key of events: by time; at equal times brokers first, because a lease is granted before a member has it."""
    return (event.t_ms, event.node == event.client, event.node, event.seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """A time for which one member owned one queue, and what it cost that the queue came to it.

    A member owns a queue from QUEUE_ACQUIRED to QUEUE_DROPPED, as long as its lease lasts: until QUEUE_RELEASED, and
    not from LOCK_EXPIRED to its next LOCK_GRANTED. So a member that hangs owns its queues until its leases end, and one
    that was killed right after a release does not own the queue any more, although it could not send QUEUE_DROPPED.

    Attributes:
        began: `acquired`, or `resumed` after the lease had ended.
        ended: `revoked`, `shutdown`, `lost`, `reset`, `expired`, `released` (and no drop was reported), or `open` if it
            had not ended.
        reach: offset behind the last message that it dispatched.
        from_client: the member that acquired the queue last before; None for the first owner.
        moved: whether the queue was acquired, and `from_client` is another member or None.
        orphan_ms: time before it in which the queue had no owner although some member wanted its topic; none before
            the first owner, because events do not say since when the queue was there.
        pause_ms: the orphan time, and then until the first pull of this owner. Where earlier owners were still there,
            from the end of the last of them to the first pull.
        double_ms: time for which this owner and exactly one earlier one owned the queue.
        redelivered: messages that earlier owners dispatched, as far as they told, and that this owner starts before.
        duplicates: how many of them it dispatched as well. Both are 0 for an owner that resumes, which still has its
            messages, and after a reset by an operator, who wants them again.
        possible_duplicates: at most so many more: served to owners that died before they could tell what they
            dispatched, as brokers say at the end of their leases.
    """

    group: str
    topic: str
    broker: str
    queue_id: int
    owner: str
    from_ms: float
    to_ms: float
    began: str
    ended: str
    cause: str  # of the rebalance that it belongs to
    end_cause: str
    token: int
    start_offset: int
    backlog: int | None  # the lag at the start; None if the broker did not report it
    first_pull_ms: float | None
    first_message_ms: float | None
    handed_out: int  # messages dispatched
    reach: int
    from_client: str | None
    moved: bool
    orphan_ms: float
    pause_ms: float
    double_ms: float
    redelivered: int
    duplicates: int
    possible_duplicates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLoads:
    """The loads of one topic after a rebalance that moved queues of it.

    The load of a member is the number of queues that it was the last to acquire.
    """

    topic: str
    t_ms: float  # of the last move
    members: int
    queues: int  # that some member has
    needed: int  # see `Rebalance`
    jain: float  # Jain's index of the loads, 1 if all are equal
    spread: int  # largest load less smallest


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One change of the world and all that it set off: everything that names it as its cause.

    Attributes:
        cause: id of its first event. Where several nodes tell of one change, for instance two brokers of an expanded
            topic, or of a member that died, the first one's cause stands for all.
        kind, detail, client, broker: of that event, or of the first one known if that one is not in the trace.
        trigger: of its passes, in alphabetical order, joined by `+`.
        members: of the group at its end; -1 if no event told of any.
        began_ms: time of the cause.
        ended_ms: when the last queue was acquired or dropped, or else the last pass ended.
        passes: how many ended.
        moves: acquired queues that it moved, see `Ownership.moved`.
        needed: fewest moves from the loads before to loads as even as those after it, whoever has which; see
            `traces/figures/loads.py`. Never more than `moves`.
        backlog, pause_ms and so forth: of the ownerships that it began, summed.
    """

    group: str
    cause: str
    kind: str
    detail: str
    client: str
    broker: str
    trigger: str
    members: int
    began_ms: float
    ended_ms: float
    passes: int
    moves: int
    needed: int
    pause_ms: float
    pause_max_ms: float
    orphan_ms: float
    double_ms: float
    redelivered: int
    duplicates: int
    possible_duplicates: int
    backlog: int
    loads: tuple[TopicLoads, ...]

    @property
    def balance_ms(self) -> float:
        """The time to balance: from the cause to the last queue that changed hands because of it."""
        return self.ended_ms - self.began_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTotals:
    """The figures of a group up to now.

    Attributes:
        members_joined, members_left: how often a client became a member, and ceased to be one.
        rebalances: those that moved a queue.
        needed: of these rebalances, summed.
        acquisitions: times that a member acquired a queue, even one that it had owned last.
        handed_out: messages dispatched to listeners, as far as members told.
        orphan_ms: as in `Ownership`, with the queues that have no owner now.
        orphans: queues without an owner now, although some member wants their topic.
    """

    group: str
    members_joined: int = 0
    members_left: int = 0
    members: int = 0
    rebalances: int = 0
    moves: int = 0
    needed: int = 0
    acquisitions: int = 0
    handed_out: int = 0
    redelivered: int = 0
    duplicates: int = 0
    possible_duplicates: int = 0
    pause_ms: float = 0.0
    pause_max_ms: float = 0.0
    orphan_ms: float = 0.0
    double_ms: float = 0.0
    backlog_max: int = 0
    orphans: int = 0
