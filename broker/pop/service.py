"""Runs pops, holds those that find nothing, and lets what was not acknowledged in time come again in its place.

RocketMQ: PopMessageProcessor, PopReviveService, which copies such messages to a retry topic 2 to 3 s late. Here they
are delivered again from the same queue, on time (`broker/pop/window.py`).

A queue is consumed either by POP or under a lease: a pop passes over a queue that a member has leased, and a lease is
refused as long as the group has messages of the queue in flight. Whoever was refused makes the queue drain: nothing
more is delivered from it, what is in flight may be acknowledged as ever, what is not goes to the retry topic, and
when nothing is left the refused are told (`broker/pop/forwarder.py`).
"""

from __future__ import annotations

import math
from array import array
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import msgpack

from broker.leases.table import QueueKey
from broker.messages.parked import ParkedRequests
from broker.pop.delivery import Batch, PopDelivery
from broker.pop.forwarder import PopForwarder
from broker.pop.journal import Times
from broker.pop.ledger import GroupQueue, PopKey, PopLedger
from broker.pop.request import ParkedPop, PopRequest, read_pop
from broker.pop.store import PopStore
from broker.topics.table import check_readable
from model.errors import NoPermission, PollingFull, RlabError, StorageFull
from model.limits import MAX_POP_BACKLOG, MAX_POP_JOURNAL_BYTES
from model.response_code import ResponseCode
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.wire.pop import ANY_QUEUE

if TYPE_CHECKING:
    from broker.broker import Broker

_NOTHING = Reply({"remark": "nothing new"}, None, int(ResponseCode.PULL_NOT_FOUND))
_DUE_PER_TURN = 4_096
"""Messages that become due in one turn of the loop: a millisecond, or ten if each has a time of its own."""
_TOKENS_AT_A_TIME = 64
_EXTENSION_STEP_S = 0.01
"""Times of extended messages are rounded up to it, so that those of one batch stay together."""


class PopService:
    """The pops of one broker.

    Args:
        broker: its tables, which are loaded.
        rng: tokens come from it; nobody may guess them.

    Attributes:
        ledger: what is in flight.
    """

    def __init__(self, broker: Broker, rng: Random) -> None:
        self._broker = broker
        self._rng = rng
        self._tokens = array("Q")
        self._parked: ParkedRequests[ParkedPop] = ParkedRequests()
        self._draining: dict[GroupQueue, None] = {}
        # (window, old token, time) of the newest extension, and the token that it gave.
        self._extension: tuple[int, int, float] | None = None
        self._extension_token = 0
        self._journal_limit = MAX_POP_JOURNAL_BYTES
        self._stored = PopStore(broker.metadata)
        self.ledger = PopLedger(self._stored.journal.append, self._forgotten)
        self._forwarder = PopForwarder(broker, self.ledger, self.new_token, self.changed)
        self._delivery = PopDelivery(broker, self.ledger, self._forwarder, self.new_token)

    def restore(self) -> None:
        """Put back what earlier runs had in flight; once, when the other tables are loaded."""
        self.ledger.restore(self._stored.windows(), self._stored.journal.entries(), self.times(), self._end_of)
        offsets = self._broker.offsets
        for key, queue in self.ledger.queues.items():
            # Below what is stored only after a power cut that took messages.
            if queue.window.committed > (offsets.read(*key) or 0):
                offsets.commit(*key, queue.window.committed)
        self._compact()

    @property
    def held_count(self) -> int:
        """How many pops are held."""
        return len(self._parked)

    def times(self) -> Times:
        """Now, on both clocks."""
        return Times(self._broker.loop.time(), self._broker.config.clock_ms())

    def new_token(self, queue: GroupQueue) -> int:
        """A token that nobody can guess and no other batch of the queue has."""
        while True:
            if not self._tokens:  # many at a time: the system's generator takes longer to ask than to answer
                self._tokens = array("Q", self._rng.randbytes(8 * _TOKENS_AT_A_TIME))
            token = self._tokens.pop()
            if token and token not in queue.window.batches:
                return token

    def extend(self, queue: GroupQueue, token: int, offset: int, invisible_s: float) -> tuple[int, int] | None:
        """Give a message another time and a new handle.

        A client that needs more time for a whole batch extends its messages one after another, in a moment: they get
        the same token, and are a batch again.

        Returns:
            (new token, when it comes again in wall clock ms), or None if the handle is dead.
        """
        times = self.times()
        now = times.now
        visible_at = math.ceil((now + invisible_s) / _EXTENSION_STEP_S) * _EXTENSION_STEP_S if invisible_s else now
        extension = (queue.number, token, visible_at)
        if self._extension != extension:
            self._extension, self._extension_token = extension, self.new_token(queue)
        new_token = self._extension_token
        if not self.ledger.extend(queue, token, offset, new_token=new_token, times=times, visible_at=visible_at):
            return None
        self._broker.driver.wake_by(visible_at)
        return new_token, times.wall_ms(visible_at)

    def check_backlog(self) -> None:
        """Check that changes can be written down.

        Raises:
            StorageFull: the disk has taken none for a while.
        """
        if len(self._stored.journal.pending) > MAX_POP_BACKLOG:
            raise StorageFull("the broker cannot write down what is in flight: make room on its disk")

    # --- popping -----------------------------------------------------------------------------------------------------

    def pop(self, connection: Connection, request: Command) -> Reply | None:
        """Answer a pop, or hold it.

        Whoever asks need not be a member: handles say whose a message is. One that was dropped, because its heartbeats
        did not come through, goes on, and is listed again with its next heartbeat.
        """
        broker, pop = self._broker, read_pop(request.header)
        now = broker.loop.time()
        broker.groups.touch(pop.group, pop.client_id, now)
        self.check_backlog()
        self._check_queue(pop)
        suspend_ms = request.header["suspend_ms"]
        batches, is_more = self._delivery.take(pop)
        if batches:
            self._answer_stored(connection, request, batches)
        elif is_more or not suspend_ms:
            return _NOTHING
        else:
            if (full := self._parked.full_at(pop.topic, (pop.group, pop.queue_id))) is not None:
                raise PollingFull(
                    f"{full[0]} pops of group {pop.group!r} wait for {pop.topic!r}, and {full[1]} on this broker: "
                    "retry later"
                )
            deadline = now + suspend_ms / 1000
            self._parked.park(ParkedPop(connection, request, pop, deadline))
            broker.driver.wake_by(deadline)
        return None

    def _check_queue(self, pop: PopRequest) -> None:
        entry = self._broker.topics.existing(pop.topic)
        if pop.queue_id >= entry.serves_below:
            check_readable(entry.config, pop.queue_id)
        if not entry.serves_below:
            raise NoPermission(f"topic {pop.topic!r} is not readable on this broker")

    # --- answering ---------------------------------------------------------------------------------------------------

    def _answer_stored(self, connection: Connection, request: Command, batches: list[Batch]) -> None:
        self._broker.barrier.after_commit(partial(self._answer, connection, request, batches))
        self.compact_if_long()

    def _answer(
        self, connection: Connection, request: Command, batches: list[Batch], failure: RlabError | None
    ) -> None:
        if failure is None and not connection.closed:
            connection.respond(request, {}, msgpack.packb([batch.row for batch in batches]))
            return
        # Nobody has them: whoever asks next need not wait until their time is over.
        times = self.times()
        for batch in batches:
            if self.ledger.queues.get(batch.queue.key) is batch.queue:
                self.ledger.give_back(batch.queue, batch.token, times)
        self._broker.barrier.metadata_changed()
        self._broker.driver.wake_by(times.now)
        if failure is not None:
            connection.respond_error(request, failure)

    # --- waking ------------------------------------------------------------------------------------------------------

    def wake(self, topic: str, queue_id: int) -> None:
        """Look for held pops that may have messages of this queue: there is something new, or it is free."""
        for group in dict.fromkeys(group for group, _ in self._parked.keys(topic)):
            self._wake(PopKey(group, topic, queue_id))

    def first_parked(self, key: PopKey) -> ParkedPop | None:
        """The pop that has waited longest for messages of a queue."""
        group, topic, queue_id = key
        return self._parked.first(topic, (group, queue_id), (group, ANY_QUEUE))

    def _wake(self, key: PopKey) -> None:
        while (held := self.first_parked(key)) is not None:
            try:
                self.check_backlog()
                batches, is_more = self._delivery.take_from(held.pop, key.topic, key.queue_id)
            except RlabError as error:
                self._parked.take([held])
                held.connection.respond_error(held.request, error)
                continue
            if batches:
                self._parked.take([held])
                self._answer_stored(held.connection, held.request, batches)
            elif is_more:
                self._parked.take([held])
                held.connection.respond(held.request, *_NOTHING)
            else:
                break

    def changed(self, queue: GroupQueue) -> None:
        """Note that messages of a window were ended: the group's commit moves, and somebody may wait for that."""
        key, window = queue.key, queue.window
        self._delivery.commit(key, window.committed)
        if queue.waiters:
            if window.is_idle:
                self._hand_over(queue)
        elif self._parked:
            # One may wait that asks in order, or that found the window full.
            self._wake(key)

    def _hand_over(self, queue: GroupQueue) -> None:
        self._tell_waiters([queue])
        self.ledger.forget(queue)

    # --- time --------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When to call `expire` next, or None."""
        deadlines = (self._parked.next_deadline(), self.ledger.next_deadline())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def expire(self, now: float) -> None:
        """Let what was not acknowledged in time come again, and answer the held pops whose time is over."""
        for queue in self.ledger.expire(now, _DUE_PER_TURN):
            if self.ledger.queues.get(queue.key) is not queue:
                continue
            if queue.waiters and self._forwarder.is_draining(queue):
                self._forwarder.to_retry(queue)
            else:
                self._wake(queue.key)
        for held in self._parked.expire(now):
            held.connection.respond(held.request, *_NOTHING)

    # --- exclusion ---------------------------------------------------------------------------------------------------

    def try_yield_to_pull(self, group: str, queue: QueueKey, client_id: str) -> bool:
        """Whether a member may have the lease of a queue; if not, the queue drains, and the member is told."""
        popped = self.ledger.queues.get(PopKey(group, *queue))
        if popped is None:
            return True
        if popped.window.is_idle:
            self.ledger.forget(popped)
            self._broker.barrier.metadata_changed()
            return True
        popped.waiters[client_id] = None
        self._draining[popped] = None
        self._forwarder.to_retry(popped)
        return False

    def is_popping(self, group: str, queue: QueueKey) -> bool:
        """Whether the group has messages of a queue in flight: then its commit is not anybody's to move."""
        popped = self.ledger.queues.get(PopKey(group, *queue))
        return popped is not None and not popped.window.is_idle

    def forget_queue(self, group: str, queue: QueueKey) -> None:
        """Forget what a group has in flight of a queue: its offset was reset, or committed by somebody else."""
        popped = self.ledger.queues.get(PopKey(group, *queue))
        if popped is not None:
            self.ledger.forget(popped)
            self._tell_waiters([popped])

    def look_again(self, group: str) -> None:
        """Let pops go on in queues that drained for a member that is none any more."""
        for queue in [queue for queue in self._draining if queue.key.group == group]:
            if not self._forwarder.is_draining(queue):
                del self._draining[queue]
                self._wake(queue.key)

    def forget_group(self, group: str) -> None:
        """Forget what a group that is deleted has in flight."""
        self._forget(self.ledger.of_group(group))
        self._delivery.forget(group=group)

    def forget_topic(self, topic: str) -> None:
        """Forget what is in flight of a topic that is deleted; whoever waits for it is told."""
        self._forget(self.ledger.of_topic(topic))
        self._delivery.forget(topic=topic)
        gone = [held for held in self._parked.of_topic(topic) if held.pop.topic == topic]
        self._parked.take(gone)
        for held in gone:
            try:
                self._broker.topics.existing(topic)
            except RlabError as error:
                held.connection.respond_error(held.request, error)

    def _forget(self, queues: list[GroupQueue]) -> None:
        for queue in queues:
            self._draining.pop(queue, None)
        self.ledger.forget_all(queues)

    def _tell_waiters(self, queues: list[GroupQueue]) -> None:
        waiting: dict[tuple[str, str], int] = {}
        for queue in queues:
            self._draining.pop(queue, None)
            for client_id in queue.waiters:
                waiting[(queue.key.group, client_id)] = waiting.get((queue.key.group, client_id), 0) + 1
        self._broker.tell_released(waiting, "")

    def member_left(self, connection: Connection, group: str, client_id: str) -> None:
        """Answer the held pops of a member that leaves: what came now would be invisible to all for nothing."""
        mine = self._parked.of_connection(connection)
        leaving = [held for held in mine if held.pop.group == group and held.pop.client_id == client_id]
        self._parked.take(leaving)
        for held in leaving:
            held.connection.respond(held.request, *_NOTHING)

    def connection_closed(self, connection: Connection) -> None:
        """Forget the held pops of a connection that is gone. What it has in flight stays so: it may come back."""
        self._parked.take_connection(connection)

    # --- storing -----------------------------------------------------------------------------------------------------

    def _forgotten(self, queue: GroupQueue) -> None:
        """Store where the group stands, in the transaction after which no window tells it any more.

        As long as there is one, it is in the journal: a row of its own for each acknowledgement took a tenth of the
        time of a pop.
        """
        offset = self._broker.offsets.read(*queue.key)
        if offset is not None:
            self._broker.leases.save_offset(*queue.key, offset)

    def compact_if_long(self) -> None:
        """Store a snapshot when the journal has grown long, so that it does not grow for ever."""
        if self._stored.journal.written_bytes > self._journal_limit:
            self._compact()

    def _compact(self) -> None:
        rows = self.ledger.snapshot(self.times())
        self._journal_limit = max(MAX_POP_JOURNAL_BYTES, 2 * sum(len(row.data) for row in rows))
        self._stored.save_windows(rows)

    def _end_of(self, key: PopKey) -> int | None:
        entry = self._broker.topics.get(key.topic)
        return None if entry is None else self._broker.store.max_offset(entry.topic_id, key.queue_id)
