"""The records of the figures: an ownership, a rebalance, the totals of a group. Pure.

Times are wall clock in milliseconds, as in the events. A difference between times of two nodes is only as exact as
their clocks. Queues of retry topics are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from model.events import Event


def order_of(event: Event) -> tuple[float, bool, str, int]:
    """Sort key of events: time; at equal times brokers first, because the grant of a lease precedes its use."""
    return (event.t_ms, event.node == event.client, event.node, event.seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """A time for which one member owned one queue, and the costs of its move to that member.

    A member owns a queue from QUEUE_ACQUIRED to QUEUE_DROPPED, while its lease lasts: until QUEUE_RELEASED, and not
    from LOCK_EXPIRED to its next LOCK_GRANTED. So a member that hangs owns its queues until its leases end, and a
    member that was killed right after a release no longer owns the queue, although it could not send QUEUE_DROPPED.

    Attributes:
        began: `acquired`, or `resumed` after the lease had ended.
        ended: `revoked`, `shutdown`, `lost`, `reset`, `expired`, `released` (without a reported drop), or `open` if it
            had not ended.
        reach: offset after the last message that it dispatched.
        from_client: the member that acquired the queue before this one; None for the first owner.
        moved: whether the queue was acquired, and `from_client` is not this owner.
        orphan_ms: time before it in which the queue had no owner although some member wanted its topic; 0 for the first
            owner, because events do not show when the queue was created.
        pause_ms: the orphan time, plus the time until the first pull of this owner. If earlier ownerships had not
            ended, the time from the end of the last of them to the first pull.
        double_ms: time for which this owner and exactly one earlier owner owned the queue.
        redelivered: messages after the start offset of this owner that earlier owners reported as dispatched.
        duplicates: the part of them that this owner dispatched as well. Both are 0 for an owner that resumes, because
            it still has its messages, and after a reset by an operator, because repetition is wanted then.
        possible_duplicates: upper bound of further duplicates: messages served to owners that died before they could
            report their dispatches, as brokers report at the end of the leases.
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
    cause: str  # cause of its rebalance
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
    queues: int  # queues with an owner
    needed: int  # see `Rebalance`
    jain: float  # Jain's index of the loads, 1 if all are equal
    spread: int  # largest load less smallest


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One change of the world and all its effects: every event that names it as its cause.

    Attributes:
        cause: id of its first event. If several nodes report one change, for instance both brokers of an expanded topic
            or of a dead member, the cause of the first report is used for all.
        kind, detail, client, broker: columns of that event, or of the first known event if it is not in the trace.
        trigger: the triggers of its passes, in alphabetical order, joined by `+`.
        members: members of the group at its end; -1 if unknown.
        began_ms: time of the cause.
        ended_ms: when the last queue was acquired or dropped, or else the last pass ended.
        passes: the number of passes that ended.
        moves: the number of queues that moved, see `Ownership.moved`.
        needed: fewest moves from the loads before to loads as even as after it, whichever member has which; see
            `traces/figures/loads.py`. Never more than `moves`.
        pause_ms, pause_max_ms, orphan_ms, double_ms, redelivered, duplicates, possible_duplicates, backlog: sums (a
            maximum for `pause_max_ms`) over the ownerships that it began.
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
        """The time to balance: from the cause to the last queue that was acquired or dropped because of it."""
        return self.ended_ms - self.began_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTotals:
    """The figures of a group up to now.

    Attributes:
        members_joined, members_left: how often a client became a member, and stopped being one.
        rebalances: the number of rebalances that moved a queue.
        needed: the sum over these rebalances.
        acquisitions: how often a member acquired a queue, including a queue that it had owned last.
        handed_out: messages that members reported as dispatched to listeners.
        orphan_ms: as in `Ownership`, including the queues that have no owner now.
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
