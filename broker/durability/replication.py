"""Holds back flushes until other replicas have them; then, in order, shows them to readers and answers their requests.

A flush is done when it is committed by the replicator and, with `FlushMode.SYNC`, synced here as well; the two run side
by side. The first that is not done holds back the ones behind it:

    offered     1       2       3           committed up to 2, 1 and 3 are synced
    done        yes     no                  2 waits for its sync, 3 for both; readers see the messages of 1

A request that waits for too long is answered with `ReplicationTimeout`, once: its change is stored here, and may still
be committed. The flush stays in the queue with the callbacks that change tables, because these must not act on a
failure that did not happen. While it is there, requests that append messages are refused before they do, so that
clients do not append again every few seconds for as long as a replica or the register is away.

No answer leaves without the lease, even if the request came under it: the process may have stood still in between, and
another master may have begun. An answer that is ready waits behind an empty flush, which is committed once there is
a lease again.

When the replicator ends, the new master may have the flushes that wait, or not: they get the same error. Nothing is
written after that (`WriteBarrier`). The tables in memory may then be ahead of the files, for instance by a lease whose
flush was not committed: the broker is dropped, and a new one reads the files.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import anyio

from broker.durability.answers import Response, Sends, WriteCallback, answer_sends
from broker.durability.changes import RowChange
from broker.durability.group_commit import GroupCommit
from broker.durability.replicator import Replicator
from broker.store.message_store import MessageStore
from model.errors import NotEnoughReplicas, NotMaster, ReplicationTimeout, RlabError
from model.replica_limits import REPLICATION_TIMEOUT_S

Queues = dict[tuple[str, int], None]
"""Queues with new messages: (topic, queue id)."""


class WaitingForReplicas:
    """What waits for one flush: the sends, the callbacks of messages and of rows, and the queues with new messages."""

    __slots__ = ("after_append", "after_commit", "due", "is_synced", "n", "not_synced", "position", "queues", "sends")

    def __init__(
        self, sends: Sends, after_append: list[WriteCallback], after_commit: list[WriteCallback], queues: Queues
    ) -> None:
        self.sends = sends
        self.after_append = after_append
        self.after_commit = after_commit
        self.queues = queues
        self.n = 0
        self.position = 0  # of the log after the flush
        self.due = 0.0
        self.is_synced = True
        self.not_synced: RlabError | None = None


class Replication:
    """The flushes of one broker that its replicator has, oldest first."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: MessageStore,
        replicator: Replicator,
        on_new_messages: Callable[[str, int], None],
        group_commit: GroupCommit | None,
    ) -> None:
        self._loop = loop
        self._store = store
        self._replicator = replicator
        self._on_new_messages = on_new_messages
        self._group_commit = group_commit
        self.may_serve = replicator.may_serve  # whether a request may be served at this moment
        self._committed_n = self._last_n = 0
        self._waiting: deque[WaitingForReplicas] = deque()
        self._in_time: deque[WaitingForReplicas] = deque()  # the last ones of them, which have not waited for too long
        self._timer: asyncio.TimerHandle | None = None
        self.ended: NotMaster | None = None
        self.is_open = False  # no request is refused in this event-loop iteration; so a burst of sends is checked once
        self.started = anyio.Event()  # the state with which the broker began is committed, or the replicator has ended

    def begin(self, on_ended: Callable[[NotMaster], None]) -> None:
        """Offer the state with which the broker begins; `on_ended` is called before anything that waits is answered."""
        self._on_ended = on_ended
        self._store.show_only_committed()
        self._replicator.begin(self._committed, self._end)
        self.offer(
            WaitingForReplicas([], [], [lambda _: self.started.set()], {}), [], has_written=True, wrote_log=False
        )

    def check(self, *, appends: bool) -> RlabError | None:
        """Why a request is refused now; sets `is_open` for the rest of the iteration if none is."""
        refusal = self.refusal(appends=True)
        if refusal is None:
            self.is_open = True
            self._loop.call_soon(self._iterated)
        return self.refusal(appends=False) if isinstance(refusal, NotEnoughReplicas) and not appends else refusal

    def _iterated(self) -> None:
        self.is_open = False

    def refusal(self, *, appends: bool) -> RlabError | None:
        """Why a request is refused now; `appends` is whether it appends messages."""
        refusal = self._replicator.refusal() or self.ended
        if isinstance(refusal, NotEnoughReplicas) and not appends:
            return None
        if refusal is None and appends and len(self._waiting) > len(self._in_time):
            return NotEnoughReplicas(
                "other replicas are late: no message is stored before they have caught up, try again"
            )
        return refusal

    def refusal_of_parked(self) -> RlabError | None:
        """Why a request that has waited here is refused now, although it was not when it came."""
        return None if self.is_open and self.may_serve() else self.check(appends=False)

    def offer(
        self, waiting: WaitingForReplicas, changes: list[RowChange], *, has_written: bool, wrote_log: bool
    ) -> None:
        """Offer a flush, and answer the requests that wait for it once it is committed.

        If nothing was written, these wait for the flushes before it, and for the lease.
        """
        if has_written or not self._may_answer():
            self._last_n = self._replicator.offer(changes)
        waiting.n, waiting.position = self._last_n, self._store.written_position
        is_alone = not self._waiting and waiting.n <= self._committed_n and self.ended is None
        if is_alone and (self._group_commit is None or not wrote_log):
            if wrote_log:
                self._store.show(waiting.position)
            self._answer(waiting)
            return
        if wrote_log and self._group_commit is not None:
            waiting.is_synced = False
            n_producers = len(waiting.sends) + len(waiting.after_append)
            self._group_commit.wait(lambda failure: self._synced(waiting, failure), n_producers)
        self._waiting.append(waiting)
        waiting.due = self._loop.time() + REPLICATION_TIMEOUT_S
        self._in_time.append(waiting)
        if self.ended is not None:
            self._fail(_in_doubt(self.ended))
            return
        if self._may_answer():
            self._advance()
        if self._in_time and self._timer is None:
            self._timer = self._loop.call_at(self._in_time[0].due, self._answer_overdue)

    def close(self) -> None:
        """Answer all requests that still wait: the broker stops."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fail(ReplicationTimeout("the broker stopped before other replicas had this"))

    def _synced(self, waiting: WaitingForReplicas, failure: RlabError | None) -> None:
        waiting.is_synced, waiting.not_synced = True, failure
        if self._may_answer():
            self._advance()
        else:
            self._last_n = self._replicator.offer([])

    def _may_answer(self) -> bool:
        return self.ended is not None or self.may_serve()

    def _committed(self, n: int) -> None:
        self._committed_n = max(self._committed_n, n)
        if self._waiting:
            self._advance()

    def _advance(self) -> None:
        in_sync: list[WaitingForReplicas] = []
        visible_to = 0
        queue = self._waiting
        while queue and queue[0].n <= self._committed_n and queue[0].is_synced and self.ended is None:
            waiting = queue.popleft()
            if self._in_time and self._in_time[0] is waiting:
                self._in_time.popleft()
            if waiting.not_synced is None:
                visible_to = waiting.position
            in_sync.append(waiting)
        if visible_to:
            self._store.show(visible_to)
        for waiting in in_sync:
            self._answer(waiting)

    def _answer(self, waiting: WaitingForReplicas) -> None:
        answer_sends(waiting.sends, waiting.not_synced)
        for callback in waiting.after_append:
            callback(waiting.not_synced)
        if waiting.not_synced is None:
            for topic, queue_id in waiting.queues:
                self._on_new_messages(topic, queue_id)
        for callback in waiting.after_commit:
            callback(None)

    def _answer_overdue(self) -> None:
        """Answer the requests that have waited for too long, and look again when the next one has."""
        now, in_time = self._loop.time(), self._in_time
        failure: ReplicationTimeout | None = None
        while in_time and in_time[0].due <= now:
            waiting = in_time.popleft()
            where = "not confirmed by every replica in sync" if waiting.is_synced else "its disk has not synced it"
            failure = failure or ReplicationTimeout(
                f"stored here, but {where} within {REPLICATION_TIMEOUT_S} s: it may be kept or not"
            )
            answer_sends(waiting.sends, failure)
            for callback in waiting.after_commit:
                if isinstance(callback, Response):
                    callback(failure)
            waiting.sends = []
            waiting.after_commit = [each for each in waiting.after_commit if not isinstance(each, Response)]
        self._timer = self._loop.call_at(in_time[0].due, self._answer_overdue) if in_time else None

    def _end(self, error: NotMaster) -> None:
        if self.ended is not None:
            return
        self.ended, self.is_open = error, False
        self._on_ended(error)
        self._fail(_in_doubt(error))
        self.started.set()

    def _fail(self, failure: RlabError) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._in_time.clear()
        for each in waiting:
            answer_sends(each.sends, failure)
            for callback in (*each.after_append, *each.after_commit):
                callback(failure)


def _in_doubt(error: NotMaster) -> ReplicationTimeout:
    return ReplicationTimeout(f"stored here, but this broker has stopped being the master ({error})")
