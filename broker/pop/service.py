"""POP: serves its requests, parks pops that find nothing, and redelivers messages that are not acknowledged in time.

RocketMQ: PopMessageProcessor, AckMessageProcessor, ChangeInvisibleTimeProcessor; and PopReviveService, which copies
unacknowledged messages to a retry topic 2 to 3 s late. Here their own queue has them on time (`broker/pop/window.py`).

A queue is consumed either by POP or under a lease: a pop passes over a queue that a member has leased, and a lease is
refused while the group has invisible messages of the queue. A refused member makes the queue drain: the broker delivers
nothing more from it and still accepts acknowledgements, messages whose invisible time ends go to the retry topic, and
the member is notified once nothing is invisible (`broker/pop/forwarder.py`).

    pop of A           gets 5, 6, 7 of orders:0, invisible for 60 s
    lease for B        refused, the queue drains
    A acknowledges 5   a pop of C gets nothing from orders:0
    60 s are over      6 and 7 go to the retry topic; B is notified, asks again and gets the lease, from offset 8
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import msgpack

from broker.feature import Core, CurrentRights, Feature
from broker.groups.members import Groups
from broker.groups.settings import StoredGroupSettings
from broker.leases.service import Leases
from broker.messages.parked import ParkedRequests
from broker.messages.refused import refuse_parked
from broker.pop.answers import NOTHING, PopAnswers, is_named
from broker.pop.delivery import PopDelivery
from broker.pop.forwarder import PopForwarder
from broker.pop.handles import PopHandles
from broker.pop.journal import Times
from broker.pop.ledger import GroupQueue, PopKey, PopLedger
from broker.pop.renewals import Renewals
from broker.pop.request import ParkedPop, PopRequest, read_pop
from broker.pop.store import PopStore
from broker.pop.tokens import Tokens
from broker.topics.service import Topics
from broker.topics.table import check_readable
from model.errors import NoPermission, PollingFull, RlabError
from model.quirks import Quirk
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler
from remoting.wire.pop import ANY_QUEUE

_DUE_PER_CALL = 4_096
"""Messages that become due in one event-loop iteration: a millisecond of work, or ten if no two are due together."""


class Pop(Feature):
    """POP on one broker; `ledger` has the invisible messages of every group.

    Requests that name messages by their handles are in `broker/pop/handles.py`.
    """

    def __init__(
        self, core: Core, topics: Topics, groups: Groups, leases: Leases, settings: StoredGroupSettings, rng: Random
    ) -> None:
        self._core = core
        self._topics = topics.table
        self._groups = groups
        self._leases = leases
        self._settings = settings
        self._store = PopStore(core.metadata)
        self._tokens = Tokens(rng)
        self._parked: ParkedRequests[ParkedPop] = ParkedRequests(shares=core.shares, requests_name="parked pops")
        self._draining: dict[GroupQueue, None] = {}
        self.ledger = PopLedger(self._store.journal.append, self._forgotten)
        self._forwarder = PopForwarder(core, topics, groups, self.ledger, self._tokens, self._changed)
        self._delivery = PopDelivery(core, topics, groups, leases, self.ledger, self._forwarder, self._tokens)
        self._renewals = Renewals(core, groups, self.ledger)
        self._handles = PopHandles(
            core,
            settings,
            self._store,
            self.ledger,
            self._tokens,
            self._forwarder,
            self._renewals,
            self._changed,
            self._wake,
        )
        self._answers = PopAnswers(core, self._store, self.ledger)
        self._restore()

    def _restore(self) -> None:
        self.ledger.restore(self._store.windows(), self._store.journal.entries(), self._times(), self._end_of)
        offsets = self._leases.offsets
        for key, queue in self.ledger.queues.items():
            # Below the stored offset only after a power cut that took messages.
            if queue.window.committed > (offsets.read(*key) or 0):
                offsets.commit(*key, queue.window.committed)
        self._store.compact(self.ledger, self._times())

    def _end_of(self, key: PopKey) -> int | None:
        entry = self._topics.get(key.topic)
        return None if entry is None else self._core.store.max_offset(entry.topic_id, key.queue_id)

    def _forgotten(self, queue: GroupQueue) -> None:
        """Store the committed offset of a queue in the transaction after which no window holds it.

        While there is a window, the offset is in the journal: a row of its own for each acknowledgement took a tenth of
        the time of a pop.
        """
        offset = self._leases.offsets.read(*queue.key)
        if offset is not None:
            self._leases.save_offset(*queue.key, offset)

    def _times(self) -> Times:
        return Times(self._core.loop.time(), self._core.clock_ms())

    def stats(self) -> dict[str, int]:
        """How many pops are parked, and how many offsets are in windows."""
        return {"held_pops": len(self._parked), "pop_messages": self.ledger.messages}

    # --- requests ----------------------------------------------------------------------------------------------------

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.POP_MESSAGE: self.pop,
            RequestCode.POP_MESSAGE_BY_SQL: self.pop,
            RequestCode.CANCEL_POP: self.cancel,
            RequestCode.GET_POP_STATS: self.pop_stats,
            **self._handles.handlers(),
        }

    def pop(self, connection: Connection, request: Command) -> Reply | None:
        """Answer a pop, or park it.

        The client need not be a member: handles say to whom a message was delivered. One whose session expired, because
        its heartbeats did not arrive, goes on popping, and is listed again with its next heartbeat.
        """
        pop = read_pop(request.header)
        if pop.group in self._settings.switched_off:
            self._settings.check_may_consume(pop.group, pop.client_id)
        if pop.group in self._settings.max_attempts:  # in a pop it counts deliveries, so the first one too
            pop = pop._replace(max_attempts=self._settings.max_attempts[pop.group] + 1)
        if pop.group in self._settings.fifo:
            pop = pop._replace(order=True)
        now = self._core.loop.time()
        self._groups.table.touch(pop.group, pop.client_id, connection.number, now)
        self._store.check_backlog()
        self._check_queue(pop)
        suspend_ms = request.header["suspend_ms"]
        batches, is_more = self._delivery.deliver(pop)
        if batches:
            self._answers.answer(connection, request, batches)
        elif is_more or not suspend_ms:
            return NOTHING
        else:
            self._park(ParkedPop(connection, request, pop, now + suspend_ms / 1000))
        return None

    def _check_queue(self, pop: PopRequest) -> None:
        entry = self._topics.existing(pop.topic)
        if pop.queue_id >= entry.serves_below:
            check_readable(entry.config, pop.queue_id)
        if not entry.serves_below:
            raise NoPermission(f"topic {pop.topic!r} is not readable on this broker")

    def _park(self, parked: ParkedPop) -> None:
        group, topic = parked.pop.group, parked.pop.topic
        if full := self._parked.full_at(topic, (group, parked.pop.queue_id), parked.sharer):
            raise PollingFull(full)
        self._parked.park(parked)
        self._core.driver.wake_by(parked.deadline)

    def cancel(self, connection: Connection, request: Command) -> Reply:
        """Cancel one pop of the same connection and member, or all of them, because their client no longer waits."""
        parked_pops = [parked for parked in self._parked.of_connection(connection) if is_named(parked.request, request)]
        self._answer_nothing(parked_pops)
        is_cancelled = self._answers.cancel(connection, request)
        return Reply({"is_cancelled": bool(parked_pops) or is_cancelled})

    def pop_stats(self, connection: Connection, request: Command) -> Reply:
        """The invisible messages of a group, one row for each queue with some."""
        only, now = request.header.get("topic"), self._core.loop.time()
        queues = self.ledger.of_group(request.header["group"])
        shown_queues = (
            chosen_queue
            for chosen_queue in queues
            if only in (None, chosen_queue.key.topic) and not chosen_queue.window.is_idle
        )
        return Reply({}, msgpack.packb([queue.stats_row(now) for queue in shown_queues]))

    # --- waking parked pops ------------------------------------------------------------------------------------------

    def queue_changed(self, topic: str, queue_id: int) -> None:
        """Run the parked pops that may get messages of this queue: it has new messages, or its lease is free."""
        for group in dict.fromkeys(group for group, _ in self._parked.keys(topic)):
            self._wake(PopKey(group, topic, queue_id))

    def first_parked(self, key: PopKey) -> ParkedPop | None:
        """The pop that has waited longest for messages of a queue."""
        group, topic, queue_id = key
        return self._parked.first(topic, (group, queue_id), (group, ANY_QUEUE))

    def _wake(self, key: PopKey) -> None:
        while (parked := self.first_parked(key)) is not None:
            try:
                self._store.check_backlog()
                batches, is_more = self._delivery.deliver_from_queue(parked.pop, key.topic, key.queue_id)
            except RlabError as error:
                self._parked.remove_requests([parked])
                parked.connection.respond_error(parked.request, error)
                continue
            if batches:
                self._parked.remove_requests([parked])
                self._answers.answer(parked.connection, parked.request, batches)
            elif is_more:
                self._parked.remove_requests([parked])
                parked.connection.respond(parked.request, *NOTHING)
            else:
                break

    def _changed(self, queue: GroupQueue) -> None:
        """Commit after messages of a queue were acknowledged, and wake the member or the pop that waits for that."""
        key, window = queue.key, queue.window
        self._delivery.commit(key, window.committed)
        if queue.waiters:
            if window.is_idle:
                self._notify_waiters(queue)
                self.ledger.forget(queue)
        elif self._parked:  # maybe a pop that asks in order, or that found the window full
            self._wake(key)

    # --- deadlines ---------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When to call `expire` next, or None."""
        deadlines = (self._parked.next_deadline(), self.ledger.next_deadline())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def expire(self, now: float) -> None:
        """Redeliver messages whose invisible time has expired, and answer the parked pops whose time has expired."""
        due = self.ledger.expire(Times(now, self._core.clock_ms()), _DUE_PER_CALL, self._renewals.until)
        self._store.compact_if_long(self.ledger, self._times())
        for queue in due:
            if self.ledger.queues.get(queue.key) is not queue:
                continue
            if queue.waiters and self._forwarder.is_draining(queue):
                self._drain(queue)
            else:
                self._wake(queue.key)
        for parked in self._parked.expire(now):
            parked.connection.respond(parked.request, *NOTHING)

    # --- leases ------------------------------------------------------------------------------------------------------

    def withholds_lease(self, group: str, queue: tuple[str, int], client_id: str) -> bool:
        """Whether the group has invisible messages of a queue: then it drains, and the member is notified later."""
        popped = self.ledger.queues.get(PopKey(group, *queue))
        if popped is not None and popped.window.is_idle:
            self.ledger.forget(popped)
            self._core.barrier.metadata_changed()
        elif popped is not None:
            popped.waiters[client_id] = None
            self._draining[popped] = None
            self._drain(popped)
            return True
        return False

    def lease_freed(self, group: str, queue: tuple[str, int], waiters: Sequence[str]) -> None:
        """Let parked pops have a queue; not while a member wants it, which would wait for their acknowledgements."""
        if not any(self._leases.is_wanted_by(group, client_id, queue[0]) for client_id in waiters):
            self.queue_changed(*queue)

    def _drain(self, queue: GroupQueue) -> None:
        self._forwarder.to_retry(queue)
        self._changed(queue)  # some of its messages may no longer have been there

    def commit_refusal(self, group: str, queue: tuple[str, int], client_id: str, offset: int) -> str | None:
        """Refuse commits while the group has unacknowledged messages of a queue: then POP alone moves its offset."""
        popped = self.ledger.queues.get(PopKey(group, *queue))
        if popped is None or popped.window.is_idle or Quirk.OFFSETS_GO_BACK in self._core.quirks:
            return None
        return f"{queue[0]}:{queue[1]} of group {group!r} is consumed by POP, which commits it"

    def commit_accepted(self, group: str, queue: tuple[str, int]) -> None:
        """Forget the invisible messages of a queue: the group's offset is committed otherwise."""
        popped = self.ledger.queues.get(PopKey(group, *queue))
        if popped is not None:
            self.ledger.forget(popped)
            self._notify_waiters(popped)

    def offsets_reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Forget the invisible messages of queues whose offsets were reset."""
        for queue_id in offsets:
            self.commit_accepted(group, (topic, queue_id))

    def _notify_waiters(self, queue: GroupQueue) -> None:
        self._draining.pop(queue, None)
        self._groups.notify_released({(queue.key.group, client_id): 1 for client_id in queue.waiters}, "")

    # --- what happens elsewhere --------------------------------------------------------------------------------------

    def member_left(self, group: str, client_id: str, cause: str, reason: str) -> None:
        """Deliver again from queues that drained for this member alone, and stop extending its messages."""
        self._renewals.member_left(group, client_id)
        for queue in [queue for queue in self._draining if queue.key.group == group]:
            if not self._forwarder.is_draining(queue):
                del self._draining[queue]
                self._wake(queue.key)

    def client_unregistered(self, connection: Connection, group: str, client_id: str) -> None:
        """Answer the parked pops of a client that leaves: messages that they got now would be invisible for nothing."""
        of_connection = self._parked.of_connection(connection)
        leaving = [each for each in of_connection if (each.pop.group, each.pop.client_id) == (group, client_id)]
        self._answer_nothing(leaving)
        self._renewals.end(group, client_id)

    def process_replaced(self, group: str, client_id: str, cause: str) -> None:
        """Make the extended messages of the old process visible, because it has ended."""
        self._renewals.end(group, client_id)

    def connection_closed(self, connection: Connection) -> None:
        """Forget the parked pops of a connection. Messages that its client has stay invisible: it may come back."""
        self._parked.remove_connection(connection)
        self._renewals.closed(connection)

    def rights_changed(self, rights: CurrentRights) -> None:
        """Refuse the parked pops that are no longer allowed."""
        refuse_parked(self._parked, rights)

    def group_settings_changed(self, group: str) -> None:
        """Answer the parked pops of a group: its members pop again, with the new settings."""
        self._answer_nothing([parked for parked in self._parked.all() if parked.pop.group == group])

    def group_deleted(self, group: str, cause: str) -> None:
        """Forget the invisible messages of a group."""
        self._forget(self.ledger.of_group(group))
        self._delivery.forget(group=group)

    def topic_deleted(self, topic: str, cause: str) -> None:
        """Forget the invisible messages of a topic; pops that wait for it are answered with an error."""
        self._forget(self.ledger.of_topic(topic))
        self._delivery.forget(topic=topic)
        waiting = [parked for parked in self._parked.of_topic(topic) if parked.pop.topic == topic]
        self._parked.remove_requests(waiting)
        for parked in waiting:
            try:
                self._topics.existing(topic)
            except RlabError as error:
                parked.connection.respond_error(parked.request, error)

    def _answer_nothing(self, parked_pops: list[ParkedPop]) -> None:
        self._parked.remove_requests(parked_pops)
        for parked in parked_pops:
            parked.connection.respond(parked.request, *NOTHING)

    def _forget(self, queues: list[GroupQueue]) -> None:
        for queue in queues:
            self._draining.pop(queue, None)
            self.ledger.forget(queue)
