"""The transactions of a broker: half messages arrive, are ended by their producers, and are published or not.

RocketMQ: TransactionalMessageServiceImpl, EndTransactionProcessor. In RocketMQ, END_TRANSACTION is one-way;
if it is lost, a check finds out. Here the producer may ask for an answer, so that it knows the result. If it does not,
a check finds out, as in RocketMQ.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgpack

from broker.durability.answers import WriteCallback, answer
from broker.feature import Core, Destination, Feature, NeededMessage
from broker.groups.members import Client, Groups
from broker.store.disk.errors import StoreError
from broker.store.segments.index import LogKey
from broker.store.segments.remains import read_remains
from broker.topics.service import Topics
from broker.topics.table import remaining_queue
from broker.topics.types import check_types
from broker.transactions.half_log import HalfLog, PublishedHalf
from broker.transactions.records import HALVES, MARKS, MarkKind, decode_half
from broker.transactions.table import OpenHalf, TransactionOptions, TransactionTable
from model.errors import InvalidParameter, MessageIllegal, RlabError
from model.events import EventKind
from model.limits import MAX_ENDED_BYTES, MAX_OPEN_TRANSACTIONS, MAX_PAYLOAD_BYTES, ROWS_PER_REQUEST
from model.log_lines import LogLines
from model.message import check_sent_to
from model.names import HALF_TOPIC, check_group
from model.transaction import EndOutcome, HalfMessage, TransactionState
from remoting.body import rows_of
from remoting.command import Command
from remoting.connection import Connection
from remoting.overload.shares import find_sharer
from remoting.request_code import RequestCode
from remoting.server import Handler

logger = logging.getLogger(__name__)

_make_tuple = tuple.__new__
"""The constructor of a named tuple is Python code; `tuple.__new__` makes the same object in a third of the time."""
_STATES = frozenset(map(int, TransactionState))
_EVENTS = {
    MarkKind.COMMITTED: EventKind.TRANSACTION_COMMITTED,
    MarkKind.ROLLED_BACK: EventKind.TRANSACTION_ROLLED_BACK,
    MarkKind.ABANDONED: EventKind.TRANSACTION_GIVEN_UP,
}

EndedHalf = tuple[int, HalfMessage]
"""A half message that is ended, by its offset."""


class Transactions(Feature):
    """The half messages of one broker: `table` has those that are open, `log` stores and publishes them."""

    def __init__(self, core: Core, topics: Topics, groups: Groups, options: TransactionOptions) -> None:
        self.table = TransactionTable(options, MAX_OPEN_TRANSACTIONS, core.shares)
        self.log = HalfLog(core, topics, self.table)
        self._core = core
        self._topics = topics
        self._groups = groups
        self.unanswered: dict[int, int] = {}  # number of a client -> checks that it has not answered
        self.ended_counts = dict.fromkeys(_EVENTS, 0)  # in this run
        self._dropped = LogLines()

    def handlers(self) -> Mapping[RequestCode, Handler]:
        """Request code -> handler."""
        return {RequestCode.SEND_HALF_MESSAGE: self.send_half, RequestCode.END_TRANSACTION: self.end}

    def needed_from(self) -> dict[LogKey, int]:
        """The log is needed from this half message on: the first that is open, or whose end is not written."""
        first = self.table.first()
        return {(self.log.topic_id, HALVES): self.log.end if first is None else first}

    def needed_message(self, key: LogKey) -> NeededMessage | None:
        """The oldest half message that is open."""
        first = self.table.first()
        if key != (self.log.topic_id, HALVES) or first is None:
            return None
        try:
            half = self.log.read([first]).get(first)
        except StoreError:
            half = None
        if half is None:
            return None
        return NeededMessage(
            half.topic,
            f"a half message of producer group {half.group!r} for topic {half.topic!r}, whose transaction is open,",
            "it goes when its producer ends the transaction, or after --transaction-keep",
        )

    def destination_of(self, key: LogKey, offset: int) -> Destination | None:
        """The topic, if readable, and the producer group of a damaged half message; None if that has ended."""
        if key != (self.log.topic_id, HALVES):
            return None
        open_half = self.table.get(offset)
        if open_half is None and offset not in self.log.lost:
            return None  # its transaction has ended
        half = decode_half(read_remains(self._core.store.log, key, offset))
        if half is None or self._topics.table.get(half.topic) is None:
            return Destination("half messages", "", "" if open_half is None else open_half.group)
        return Destination("half messages", half.topic, half.group if open_half is None else open_half.group)

    def stats(self) -> dict[str, int]:
        """How many transactions are open, and how the others have ended in this run."""
        return {
            "open_transactions": len(self.table),
            "waiting_transactions": sum(self.table.waiting().values()),
            "committed_transactions": self.ended_counts[MarkKind.COMMITTED],
            "rolled_back_transactions": self.ended_counts[MarkKind.ROLLED_BACK],
            "given_up_transactions": self.ended_counts[MarkKind.ABANDONED],
        }

    def connection_closed(self, connection: Connection) -> None:
        """Forget the unanswered checks of the first client of the connection; a timer forgets those of the others."""
        self.unanswered.pop(connection.number, None)

    def close(self) -> None:
        """Store the open transactions."""
        self.log.close()

    # --- arrival -----------------------------------------------------------------------------------------------------

    def send_half(self, connection: Connection, request: Command) -> None:
        """Store half messages, all or none; responds with the offset of the first once they are written.

        Refused if a commit could not publish a message: the queue of each row has to accept messages now.
        """
        group, rows = check_group(request.header["group"]), rows_of(request)
        if not rows:
            raise InvalidParameter("SEND_HALF_MESSAGE: the body must have a message, got none")
        sizes = [len(payload) for *_, payload in rows]
        if min(sizes) == 0 or max(sizes) > MAX_PAYLOAD_BYTES:
            raise MessageIllegal(
                f"a message has {min(sizes)} to {max(sizes)} bytes, allowed are 1 to {MAX_PAYLOAD_BYTES}: split it"
            )
        queues = dict.fromkeys((topic, queue_id) for topic, queue_id, *_ in rows)
        for topic, queue_id in queues:
            check_types(self._topics.writable(topic, queue_id, connection), (b"",), is_half=True)
        if self._core.has_access_control:
            for topic, *_, payload in rows:
                check_sent_to(topic, (payload,))
        sharer = find_sharer(connection.owner)
        self.table.check_room(len(rows), sharer)
        core, options = self._core, self.table.options
        number, client = self._groups.client_on(connection, request.header.get("client_id"))
        (topic, queue_id), *other_queues = queues
        cause = core.emit(
            EventKind.HALF_STORED,
            group=group,
            topic=topic,
            queue_id=-1 if other_queues else queue_id,
            client=_id_of(client),
            offset=self.log.next_offset,
            n=len(rows),
        )
        first = self.log.append_halves(
            [_make_tuple(HalfMessage, (group, *row[:-1], cause, row[-1])) for row in rows], sharer.number
        )
        self.table.shares.add(sharer.number, len(rows))  # reserved until they are written: then the table counts them
        born = core.loop.time()
        waits_s = [options.timeout_s if row[3] < 0 else row[3] / 1000 for row in rows]

        def written(failure: RlabError | None) -> None:
            self.table.shares.remove(sharer.number, len(rows))
            if failure is None:
                half = OpenHalf(group, cause, number, born, born, sharer=sharer.number)
                self._opened(first, half, waits_s)
            answer(connection, request, failure, {"offset": first})

        core.barrier.after_append(written, HALF_TOPIC, HALVES)

    def _opened(self, first: int, template: OpenHalf, waits_s: Sequence[float]) -> None:
        if len(set(waits_s)) == 1:
            template.due = template.born + waits_s[0]
            self.table.add_batch(first, len(waits_s), template)
        else:
            for offset, wait_s in enumerate(waits_s, first):
                self.table.add(offset, replace(template, due=template.born + wait_s))
        self._core.driver.wake_by(template.born + min(waits_s))
        self.log.progressed()

    # --- ends --------------------------------------------------------------------------------------------------------

    def end(self, connection: Connection, request: Command) -> None:
        """Commit, roll back or leave open half messages. Responds once the ends are written. Idempotent."""
        group, rows = request.header["group"], rows_of(request)
        wrong = next((state for _, _, state in rows if state not in _STATES), None)
        if wrong is not None:
            raise InvalidParameter(f"END_TRANSACTION: a state is 0 (unknown), 8 (commit) or 12 (rollback), got {wrong}")
        stored_offsets = self._stored_offsets(rows)
        halves, unread = self.log.read_some(list(stored_offsets), max_bytes=MAX_ENDED_BYTES, at_a_time=ROWS_PER_REQUEST)
        if unread:
            raise MessageIllegal(
                f"{len(stored_offsets) - len(unread)} of the messages that this request ends have {MAX_ENDED_BYTES} "
                "bytes or more: end the others in another request"
            )
        outcomes: list[int] = []
        ending: dict[TransactionState, dict[int, HalfMessage]] = {}
        for offset, message_id, state in rows:
            half = halves.get(offset)
            is_open = self.table.get(offset) is not None
            # The id is the last field of a payload, so this needs no decoding.
            if half is not None and not (half.group == group and half.payload.endswith(message_id.encode())):
                outcomes.append(EndOutcome.NOT_FOUND)
            elif half is None:
                # Not readable: damaged while open, never written, or ended and deleted by retention.
                outcomes.append(
                    EndOutcome.NOT_FOUND if is_open or offset not in stored_offsets else EndOutcome.ENDED_BEFORE
                )
            elif not is_open or any(offset in ending_halves for ending_halves in ending.values()):
                # Ended by an earlier request, or by an earlier row of this one.
                outcomes.append(EndOutcome.ENDED_BEFORE)
            else:
                # An UNKNOWN state ends nothing; then DONE reports only that the transaction was open.
                outcomes.append(EndOutcome.DONE)
                ending.setdefault(state, {})[offset] = half
        number, sender = self._groups.client_on(connection, request.header.get("client_id"))
        reason, client = "producer", _id_of(sender)
        if request.header.get("from_check"):
            reason = "check"
            self.unanswered[number] = max(0, self.unanswered.get(number, 0) - len(rows))
        if rolled_back := ending.get(TransactionState.ROLLBACK):
            self.drop(MarkKind.ROLLED_BACK, list(rolled_back.items()), reason, client)
        topicless: frozenset[int] = frozenset()
        if committed := ending.get(TransactionState.COMMIT):
            topicless = self._commit(committed, reason, client)
        if topicless:
            outcomes = [
                EndOutcome.NOT_FOUND if row[0] in topicless else outcome
                for row, outcome in zip(rows, outcomes, strict=True)
            ]

        def written(failure: RlabError | None) -> None:
            answer(connection, request, failure, {}, msgpack.packb(outcomes))

        self._core.barrier.after_append(written, HALF_TOPIC, HALVES)

    def _stored_offsets(self, rows: Sequence[tuple[int, str, int]]) -> dict[int, None]:
        """The offsets of the request below the end of the half log, without repetitions."""
        end = self.log.end
        return {offset: None for offset, _, _ in rows if offset < end}

    def _commit(self, committed: Mapping[int, HalfMessage], reason: str, client: str) -> frozenset[int]:
        """Publish committed messages; returns those whose topic was deleted, which are abandoned."""
        entry_of = self._topics.table.get
        entries = {topic: entry_of(topic) for topic in {half.topic: None for half in committed.values()}}
        topicless = [(offset, half) for offset, half in committed.items() if entries[half.topic] is None]
        if topicless:
            text = "%d committed messages are dropped: topic %r was deleted"
            self._dropped.warning(logger, self._core.loop.time(), text, len(topicless), topicless[0][1].topic)
            self.drop(MarkKind.ABANDONED, topicless, "topic deleted", client)
        published = [
            _make_tuple(
                PublishedHalf,
                (offset, half, half.topic, entry.topic_id, remaining_queue(entry.config, half.queue_id)),
            )
            for offset, half in committed.items()
            if (entry := entries[half.topic]) is not None
        ]
        if published:
            self.publish(MarkKind.COMMITTED, published, reason, client)
        return frozenset(offset for offset, _ in topicless)

    def drop(self, kind: MarkKind, ended_halves: Sequence[EndedHalf], reason: str, client: str = "") -> None:
        """Write the end of open half messages that are published nowhere."""
        on_written = self._ending(kind, ended_halves, reason, client)
        self.log.append_mark(kind, [offset for offset, _ in ended_halves])
        self._core.barrier.after_append(on_written, HALF_TOPIC, MARKS)

    def publish(self, kind: MarkKind, published: Sequence[PublishedHalf], reason: str, client: str = "") -> None:
        """Write the end of open half messages, and publish them."""
        on_written = self._ending(kind, [(each.offset, each.half) for each in published], reason, client)
        self.log.append_published(kind, published)
        first, *other_targets = {(each.topic, each.queue_id): None for each in published}
        for topic, queue_id in other_targets:
            self._core.barrier.after_append(_do_nothing, topic, queue_id)
        self._core.barrier.after_append(on_written, *first)

    def _ending(self, kind: MarkKind, ended_halves: Sequence[EndedHalf], reason: str, client: str) -> WriteCallback:
        """Mark half messages as ending. The returned callback completes this, or undoes it if the write failed."""
        table, offsets = self.table, [offset for offset, _ in ended_halves]
        counts: dict[tuple[str, str, str], int] = {}
        for offset, half in ended_halves:
            table.begin_end(offset)
            key = (half.cause, half.group, half.topic)
            counts[key] = counts.get(key, 0) + 1

        def written(failure: RlabError | None) -> None:
            if failure is not None:
                table.reopen(offsets, self._core.loop.time())
                self._core.driver.wake_by(table.next_due())
                return
            table.ended(offsets)
            self.ended_counts[kind] += len(offsets)
            for (cause, group, topic), n in counts.items():
                names = {"group": group, "topic": topic, "client": client}
                self._core.emit(_EVENTS[kind], cause=cause, **names, offset=offsets[0], n=n, detail=reason)
            self.log.progressed()

        return written


def _id_of(client: Client | None) -> str:
    return "" if client is None else client.client_id


def _do_nothing(failure: RlabError | None) -> None:
    """Do nothing: `after_append` is called for the readers of the queue; the end of the write is handled elsewhere."""
