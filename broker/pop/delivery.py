"""Chooses the messages that a pop gets, and records their delivery.

A pop visits the queues of its topic in turn; the next pop begins with the next queue. The queues of its group's retry
topic come before or after them. From each queue it gets the messages that are due for redelivery, then new ones.

A pop passes over a queue while a member has its lease, and while the queue drains because a member waits for its lease
(`service.py`). A pop in order also passes over a queue while earlier messages of it are invisible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from broker.feature import Core
from broker.groups.group import ConsumerGroupInfo
from broker.groups.members import Groups
from broker.leases.service import Leases
from broker.leases.start_offsets import start_offset
from broker.leases.table import QueueKey
from broker.pop.forwarder import PopForwarder
from broker.pop.journal import Times
from broker.pop.ledger import GroupQueue, PopKey, PopLedger
from broker.pop.reads import read_due, read_new_messages
from broker.pop.request import PopRequest
from broker.pop.tokens import Tokens
from broker.store.message_store import MessageStore
from broker.store.read_result import ReadResult
from broker.topics.service import Topics
from broker.topics.table import TopicEntry
from model.errors import PollingFull, RlabError
from model.events import EventKind
from model.heartbeat import ConsumeFrom
from model.limits import MAX_POP_QUEUES, MAX_PULL_BYTES
from model.names import is_retry_topic
from model.record import iter_records
from remoting.wire.pop import ANY_QUEUE

_RETRY_FIRST_EVERY = 5
"""One pop in this many begins with the retry topic, the others end with it. RocketMQ: popFromRetryProbability."""
_READS_PER_QUEUE = 4
"""Reads of one pop in a queue whose messages do not match its filter."""


class Batch(NamedTuple):
    """`n` messages of one queue in the answer of a pop, and the row of the answer that holds them."""

    queue: GroupQueue
    token: int
    n: int
    row: list[Any]


class PopResult(NamedTuple):
    """Result of a pop: batches of different queues, and whether a filter has to examine more than one pop may read."""

    batches: list[Batch]
    is_more: bool


class PopDelivery:
    """Delivers messages to the pops of one broker."""

    def __init__(
        self,
        core: Core,
        topics: Topics,
        groups: Groups,
        leases: Leases,
        ledger: PopLedger,
        forwarder: PopForwarder,
        tokens: Tokens,
    ) -> None:
        self._core = core
        self._store = core.store
        self._topics = topics.table
        self._groups = groups.table
        self._leases = leases
        self._ledger = ledger
        self._forwarder = forwarder
        self._tokens = tokens
        # (group, topic) -> pops so far, for the queue that the next one begins with.
        self._turns: dict[tuple[str, str], int] = {}

    def deliver(self, pop: PopRequest) -> PopResult:
        """Deliver messages from the queues that the pop asks for.

        Raises:
            RlabError: no message could be delivered, for this reason.
        """
        return self._deliver(pop, self._queues_in_turn(pop, self._next_turn(pop)))

    def deliver_from_queue(self, pop: PopRequest, topic: str, queue_id: int) -> PopResult:
        """Deliver messages from one of the queues that the pop asks for; raises as `deliver` does."""
        return self._deliver(pop, iter([(topic, queue_id)]))

    def forget(self, *, group: str | None = None, topic: str | None = None) -> None:
        """Forget whose turn it is in the queues of a deleted group or topic."""
        for key in [key for key in self._turns if key[0] == group or key[1] == topic]:
            del self._turns[key]

    def _next_turn(self, pop: PopRequest) -> int:
        key = (pop.group, pop.topic)
        turn = self._turns.get(key, -1) + 1
        if not turn:
            if len(self._turns) >= MAX_POP_QUEUES:
                self._turns.clear()
            # The start offset of all queues is fixed now, although this pop may be full before it reaches the last one:
            # it must not depend on when the group first reaches a queue.
            entry = self._topics.existing(pop.topic)
            for queue_id in range(entry.serves_below):
                self._committed(pop, PopKey(pop.group, pop.topic, queue_id), entry)
        self._turns[key] = turn
        return turn

    def _queues_in_turn(self, pop: PopRequest, turn: int) -> Iterator[tuple[str, int]]:
        """(topic, queue id) of the queues that a pop may take from, in the order of its turn."""
        topics = [pop.topic] if pop.retry_topic is None else [pop.topic, pop.retry_topic]
        if turn % _RETRY_FIRST_EVERY == _RETRY_FIRST_EVERY - 1:
            topics.reverse()
        for topic in topics:
            if topic == pop.topic and pop.queue_id != ANY_QUEUE:
                yield topic, pop.queue_id
                continue
            entry = self._topics.get(topic)
            n = 0 if entry is None else entry.serves_below
            for i in range(n):
                yield topic, (turn + i) % n

    def _deliver(self, pop: PopRequest, places: Iterator[tuple[str, int]]) -> PopResult:
        times = Times(self._core.loop.time(), self._core.clock_ms())
        batches: list[Batch] = []
        left, left_bytes, any_more = pop.max_n, MAX_PULL_BYTES, False
        for topic, queue_id in places:
            entry = self._topics.get(topic)
            if entry is None or queue_id >= entry.serves_below:
                continue
            try:
                queue = self._ready(pop, PopKey(pop.group, topic, queue_id), entry)
                if queue is None:
                    continue
                batch, more = self._deliver_queue(pop, queue, entry, left, left_bytes, times)
            except RlabError:
                if batches:
                    break  # the messages delivered so far must reach their consumer
                raise
            any_more |= more
            if batch is not None:
                batches.append(batch)
                left -= batch.n
                left_bytes -= len(batch.row[-1])
                if left <= 0 or left_bytes <= 0:
                    break
        return PopResult(batches, any_more)

    def _ready(self, pop: PopRequest, key: PopKey, entry: TopicEntry) -> GroupQueue | None:
        """The queue if a pop may be served from it now, and it may have messages; None otherwise."""
        store = self._store
        queue = self._ledger.queues.get(key)
        if queue is None:
            committed = self._committed(pop, key, entry)
            if committed is None or committed >= store.max_offset(entry.topic_id, key.queue_id):
                return None
            return self._ledger.open(key, committed)
        window = queue.window
        if not window.due_count and window.next_offset >= store.max_offset(entry.topic_id, key.queue_id):
            return None
        if queue.waiters and self._forwarder.is_draining(queue):
            return None
        if pop.order and window.batches:
            return None  # earlier messages are invisible, and may become due before these are acknowledged
        return queue

    def _committed(self, pop: PopRequest, key: PopKey, entry: TopicEntry) -> int | None:
        """The committed offset, or None if the queue is leased. The first pop decides where the group starts."""
        leases = self._leases
        if leases.table.owner_of(key.group, QueueKey(key.topic, key.queue_id)) is not None:
            return None
        committed = leases.offsets.read(*key)
        if committed is None:
            info = self._groups.get(key.group)
            now_ms = int(self._core.clock_ms())
            committed = pop_start_offset(self._store, entry, key.queue_id, pop, info, now_ms)
            self.commit(key, committed)
            leases.save_offset(*key, committed)
        return committed

    def commit(self, key: PopKey, offset: int) -> None:
        """Commit an offset. It is not stored: the journal has the acknowledgements that moved it."""
        if self._leases.offsets.commit(*key, offset):
            self._core.barrier.metadata_changed()

    def _deliver_queue(
        self, pop: PopRequest, queue: GroupQueue, entry: TopicEntry, max_n: int, max_bytes: int, times: Times
    ) -> tuple[Batch | None, bool]:
        window, queue_id = queue.window, queue.key.queue_id
        bodies: list[bytes] = []
        offsets: Sequence[int] = ()
        n_due = 0
        if window.due_count:
            due = self._forwarder.due(queue, max_n, pop.max_attempts)
            read = read_due(self._store, entry.topic_id, queue_id, due, max_bytes=max_bytes)
            if read.gone:
                self._skip_missing(pop, queue, read.gone, read.moved)
            bodies, offsets, n_due = read.bodies, read.offsets, len(read.offsets)
            max_bytes -= sum(map(len, bodies))
        upto, more = window.next_offset, False
        # A pop in order must not get new messages before the redeliveries.
        if n_due < max_n and max_bytes > 0 and not (pop.order and window.due_count > n_due):
            body, new, upto, more = self._read_new(pop, queue, entry, max_n - n_due, max_bytes)
            if new:
                bodies.append(body)
                offsets = [*offsets, *new] if offsets else new
        if not offsets:
            if upto > window.next_offset:
                self._ledger.deliver(
                    queue, (), upto=upto, token=0, client_id="", times=times, invisible_s=pop.invisible_s
                )
                self.commit(queue.key, window.committed)
            return None, more
        token = self._tokens.new(queue)
        counts = self._ledger.deliver(
            queue,
            offsets,
            upto=upto,
            token=token,
            client_id=pop.client_id,
            times=times,
            invisible_s=pop.invisible_s,
        )
        self._core.driver.wake_by(times.now + pop.invisible_s)
        self.commit(queue.key, window.committed)
        if n_due:
            note = {"client": pop.client_id, "offset": offsets[0], "n": n_due}
            self._core.emit_queue(EventKind.MESSAGES_REDELIVERED, pop.group, queue.key[1:], **note)
        body = bodies[0] if len(bodies) == 1 else b"".join(bodies)
        if is_retry_topic(queue.key.topic):
            counts = [count + record.times_delivered for count, record in zip(counts, iter_records(body), strict=True)]
        visible_ms = round(times.now_ms + 1000 * pop.invisible_s)
        return Batch(queue, token, len(offsets), [*queue.key[1:], token, visible_ms, counts, body]), more

    def _read_new(
        self, pop: PopRequest, queue: GroupQueue, entry: TopicEntry, max_n: int, max_bytes: int
    ) -> tuple[bytes, Sequence[int], int, bool]:
        """(records, their offsets, the next offset to read, whether more must be searched) of new messages."""
        window, queue_id = queue.window, queue.key.queue_id
        upto = window.next_offset
        max_n = min(max_n, window.room)
        if max_n <= 0:
            return b"", (), upto, False
        if self._ledger.room <= 0:
            raise PollingFull("the groups of this broker have too many unacknowledged messages: acknowledge some")
        tag_hashes, matches = (None, None) if is_retry_topic(queue.key.topic) else (pop.tag_hashes, pop.matches)
        terms = {"max_n": max_n, "max_bytes": max_bytes}
        end = upto
        for _ in range(_READS_PER_QUEUE):
            run = read_new_messages(
                self._store, entry.topic_id, queue_id, upto, **terms, tag_hashes=tag_hashes, matches=matches
            )
            if run.is_moved:
                self._report_moved(pop, queue, upto, run.result)
            if run.upto == upto:
                return b"", (), upto, False
            if run.upto - upto > len(run.offsets):
                self._report_damaged(pop, queue, entry, upto, run.result)
            upto, end = run.upto, run.result.max_offset
            if run.offsets:
                return run.body, run.offsets, upto, False
        return b"", (), upto, upto < end

    def _skip_missing(
        self, pop: PopRequest, queue: GroupQueue, offsets: list[int], moved: tuple[int, Any] | None
    ) -> None:
        self._ledger.skip(queue, offsets)
        if moved is not None:
            self._report_moved(pop, queue, *moved)
        # No parked pop is woken, because this pop continues in the same queue, whose state must not change in between.
        self.commit(queue.key, queue.window.committed)

    def _report_moved(self, pop: PopRequest, queue: GroupQueue, asked_offset: int, result: Any) -> None:
        header = {**queue.key._asdict(), "offset": asked_offset, "client_id": pop.client_id}
        self._leases.moves.record(header, result, self._core.loop.time())

    def _report_damaged(
        self, pop: PopRequest, queue: GroupQueue, entry: TopicEntry, asked_offset: int, result: ReadResult
    ) -> None:
        damaged = self._store.damage.count((entry.topic_id, queue.key.queue_id), asked_offset, result.next_offset)
        if damaged:
            header = {**queue.key._asdict(), "offset": asked_offset, "client_id": pop.client_id}
            self._leases.moves.record_damaged(header, result, damaged, self._core.loop.time())


def pop_start_offset(
    store: MessageStore, entry: TopicEntry, queue_id: int, pop: PopRequest, info: ConsumerGroupInfo | None, now_ms: int
) -> int:
    """Return the offset that a pop starts a queue from when its group has committed none.

    The pop may name it; else the heartbeat of its member does. A group that never had a member here is created now.
    """
    consume_from, timestamp_ms = pop.consume_from, pop.consume_timestamp_ms
    if consume_from is None:
        member = None if info is None else info.members.get(pop.client_id)
        consume_from = ConsumeFrom.LAST_OFFSET if member is None else member.data.consume_from
        timestamp_ms = 0 if member is None else member.data.consume_timestamp_ms
    created_ms = now_ms if info is None else info.created_ms
    return start_offset(store, entry, queue_id, consume_from, timestamp_ms, created_ms)
