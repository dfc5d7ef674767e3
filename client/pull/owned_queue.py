"""OwnedQueue: a queue that a consumer owns, from the grant of its lease to its release, or without a lease.

It joins the parts of one ownership: the fencing token, the session that keeps the lease valid, the process queue with
the fetched messages, and the offset to commit.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio

from client.instance.lease_session import LeaseSession
from client.options import ConsumeOrder, ConsumerOptions
from client.pull.ordered_process_queue import OrderedProcessQueue, by_key, whole_queue
from client.pull.process_queue import ProcessQueue
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.topic_incarnation import TopicIncarnation
from remoting.command import Command


@dataclass(slots=True)
class DispatchCounts:
    """The count of dispatched messages, redelivered ones each time, and their delays since they were stored."""

    n: int = 0
    waited_ms: float = 0.0
    """The sum."""
    waited_max_ms: float = 0.0

    def add(self, batch: Sequence[MessageExt], now_ms: float) -> None:
        """Count a batch that is dispatched at `now_ms`; not empty, in the order of the queue.

        The sum takes the mean of the oldest and the newest for all of them: exact times would cost more than the rest
        of a dispatch.
        """
        longest_ms = max(0.0, now_ms - batch[0].stored_ms)
        shortest_ms = max(0.0, now_ms - batch[-1].stored_ms)
        self.n += len(batch)
        self.waited_ms += len(batch) * (longest_ms + shortest_ms) / 2
        self.waited_max_ms = max(self.waited_max_ms, longest_ms)


@dataclass(slots=True, eq=False)
class OwnedQueue:
    """One owned queue. A member that loses it and gets it back makes a new object: late results reach the old one."""

    queue: MessageQueue
    token: int  # fencing token of the lease; -1 without one
    process_queue: ProcessQueue
    cause: str = ""  # id of the root trigger of its grant, for its first events
    session: LeaseSession | None = None  # that in which the broker confirmed the lease; None without a lease
    incarnation: TopicIncarnation | None = (
        None  # of the topic that its offsets count in; None under a lease, or if unknown
    )
    # the scope of its pull loop; cancelled when the queue is revoked while no pull is outstanding
    pulling: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    pending_pull: asyncio.Future[Command | None] | None = None  # may be parked at the broker; see `cancel_pending_pull`
    offered: bool = False  # whether it is in the line for workers
    first_pull_seen: bool = False
    first_message_seen: bool = False
    # released, lost or begun again as another OwnedQueue; later results of listeners are ignored
    detached: bool = False
    paused: bool = False  # nothing of it is pulled or dispatched for now
    commit_at: int | None = None  # the offset to commit when its user decides that; None commits the finished ones
    sought: bool = False  # its user has sought in it
    rewound: bool = False  # the offset to commit may be any, also a lower one than before, because its user has sought
    # the offset to commit that the broker was sent last, or where the queue begins; 0 if it may not have arrived
    sent_commit: int = field(init=False)
    unsent: bool = False  # whether messages may have finished since then
    on_unsent: Callable[[OwnedQueue], None] | None = None  # called when `unsent` becomes true
    dispatch_counts: DispatchCounts = field(default_factory=DispatchCounts)  # since the last MESSAGES_HANDED_OUT event
    _progress: asyncio.Future[None] | None = None

    def __post_init__(self) -> None:
        self.sent_commit = self.process_queue.commit_offset

    def lease_valid(self, now: float) -> bool:
        """Whether the lease is certainly valid, at a loop time in seconds."""
        return self.session is None or self.session.good(now)

    @property
    def lease_ends(self) -> float:
        """The loop time up to which a valid lease stays valid while the event loop does not run."""
        return math.inf if self.session is None else self.session.ends

    def ready(self, now: float) -> bool:
        """Whether it has messages to dispatch, and a valid lease."""
        return self.process_queue.ready(now) and self.lease_valid(now)

    @property
    def busy(self) -> bool:
        """Whether a listener has messages of it."""
        return self.process_queue.dispatched > 0

    @property
    def commit_offset(self) -> int:
        """The offset that a new owner has to start from."""
        return self.process_queue.commit_offset if self.commit_at is None else self.commit_at

    def next_commit(self) -> int | None:
        """The offset to send with a request that leaves for the broker now; None if it was sent that already.

        A lower offset than the last one is left to the next persist, which sends it as a reset.
        """
        self.unsent = False
        offset = self.commit_offset
        if offset <= self.sent_commit or self.rewound:
            return None
        self.sent_commit = offset
        return offset

    def stop(self) -> None:
        """Stop pulling and dispatching; messages with a listener may finish."""
        self.process_queue.drop()
        if not self.cancel_pending_pull():
            self.pulling.cancel()

    def cancel_pending_pull(self) -> bool:
        """Ignore the answer to the outstanding pull; returns whether there was one.

        Its loop goes on in the next event-loop iteration, and sees the change. That is far less work than a
        cancellation, and in a rebalance every queue that moves has an outstanding pull.
        """
        if self.pending_pull is None or self.pending_pull.done():
            return False
        self.pending_pull.set_result(None)
        return True

    def notify_progress(self) -> None:
        """Wake the waiters: messages finished or failed, or the queue is no longer paused.

        Called for every batch, so it costs nothing without a waiter, and when the next commit is due already.
        """
        if not self.unsent and self.on_unsent is not None:
            self.unsent = True
            self.on_unsent(self)
        if self._progress is not None:
            self._progress.set_result(None)
            self._progress = None

    async def wait_progress(self) -> None:
        """Wait until messages finish or fail. Cancellation: harmless."""
        if self._progress is None:
            self._progress = asyncio.get_running_loop().create_future()
        # All waiters share the future: without the shield, a cancelled waiter would cancel it for the others, and
        # `notify_progress` could not set its result.
        await asyncio.shield(self._progress)

    async def wait_drained(self, grace_s: float) -> None:
        """Wait until no message is with a listener, for at most `grace_s`. Cancellation: harmless."""
        with anyio.move_on_after(grace_s):
            while self.busy:
                await self.wait_progress()


def make_process_queue(options: ConsumerOptions, start_offset: int) -> ProcessQueue:
    """Make the process queue that a consumer with these options needs, to be pulled from an offset on."""
    limits = {
        "max_count": options.max_queue_count,
        "max_bytes": options.max_queue_bytes,
        "max_span": options.max_queue_span,
    }
    if options.order == ConsumeOrder.NONE:
        return ProcessQueue(start_offset, **limits)
    return OrderedProcessQueue(start_offset, by_key if options.order == ConsumeOrder.KEY else whole_queue, **limits)
