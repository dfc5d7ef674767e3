"""Asks producer groups about open half messages, abandons those that stay open, and reports both.

RocketMQ: TransactionalMessageCheckService, AbstractTransactionalMessageCheckListener. A check goes, one-way, to one
producer of the group: to the sender first, if it lives, and to another one each time. A group without a producer that
can be asked uses up no checks: its transactions wait for the next producer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack

from broker.feature import Core, Feature
from broker.groups.members import Groups
from broker.store.disk.errors import StoreError
from broker.topics.service import Topics
from broker.transactions.half_log import PublishedHalf
from broker.transactions.records import MarkKind
from broker.transactions.service import Transactions
from broker.transactions.table import AbandonReason, DueHalf, OpenHalf, producers_to_ask
from model.decode import message_id_of
from model.errors import GroupNotExist, RlabError
from model.events import EventKind
from model.limits import CHECKED_BYTES_AT_ONCE, CHECKS_AT_ONCE, MAX_SHOWN_TRANSACTIONS, MAX_WAITING_CHECKS
from model.log_lines import LogLines
from model.names import ABANDONED_TOPIC
from model.transaction import HalfMessage
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler

logger = logging.getLogger(__name__)

_READ_AT_A_TIME = 4
_RETRY_S = 1.0
"""Pause before the next check of a half message that could not be read, or whose producers are all busy."""


class TransactionChecks(Feature):
    """The checks of one broker, and what operators see of its producer groups."""

    def __init__(self, core: Core, topics: Topics, groups: Groups, transactions: Transactions) -> None:
        self._core = core
        self._topics = topics
        self._groups = groups
        self._transactions = transactions
        self._table = transactions.table
        self._abandoned = LogLines()
        self._forgive_at = 0.0  # when unanswered checks of producers are forgotten

    def handlers(self) -> Mapping[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_groups,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.one_group,
        }

    # --- checks ------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When the next half message is due."""
        return self._table.next_due()

    def producer_joined(self, group: str) -> None:
        """Ask a producer at once about the half messages that have waited for one."""
        now = self._core.loop.time()
        if self._table.producer_joined(group, now):
            self._core.driver.wake_by(now)

    def expire(self, now: float) -> None:
        """Ask about half messages that are due, or abandon them; some at a time."""
        due = self._table.remove_due(now, CHECKS_AT_ONCE)
        if not due:
            return
        askable = [each for each in due if each.give_up or each.half.group in self._groups.checkers]
        waiting = [each.offset for each in due if not each.give_up and each.half.group not in self._groups.checkers]
        self._table.wait(waiting, now)
        if not askable:
            return
        offsets, max_bytes = [each.offset for each in askable], CHECKED_BYTES_AT_ONCE
        try:
            messages, unread = self._transactions.log.read_some(offsets, max_bytes=max_bytes, at_a_time=_READ_AT_A_TIME)
        except StoreError as error:
            logger.error("broker %s: half messages could not be read: %s", self._core.name, error)
            self._table.later(offsets, now + _RETRY_S)
            return
        self._table.later(unread, now)
        askable = askable[: len(askable) - len(unread)]
        self._abandon([each for each in askable if each.give_up or each.offset not in messages], messages, now)
        self._ask([each for each in askable if not each.give_up and each.offset in messages], messages, now)

    def _ask(self, due: Sequence[DueHalf], messages: Mapping[int, HalfMessage], now: float) -> None:
        if now >= self._forgive_at:
            self._forgive_at = now + self._table.options.check_interval_s
            self._transactions.unanswered.clear()
        asked_offsets = [each.offset for each in due if self._ask_one(each.offset, each.half, messages[each.offset])]
        if asked_offsets:
            # The count is stored, or a restart would begin to count again; no request waits for that write.
            self._transactions.log.append_mark(MarkKind.CHECKED, asked_offsets)
            self._core.barrier.metadata_changed()
            self._table.checked(asked_offsets, now)
        asked_set = frozenset(asked_offsets)
        self._table.later([each.offset for each in due if each.offset not in asked_set], now + _RETRY_S)

    def _ask_one(self, offset: int, half: OpenHalf, message: HalfMessage) -> bool:
        """Send a check to a producer of the group; returns whether there was one to send it to."""
        unanswered = self._transactions.unanswered
        header: dict[str, Any] = {
            "group": half.group,
            "topic": message.topic,
            "queue_id": message.queue_id,
            "offset": offset,
            "n": half.checks + 1,
            "cause": half.cause,
        }
        for number in producers_to_ask(list(self._groups.checkers[half.group]), half, offset):
            client = self._groups.clients[number]
            if unanswered.get(number, 0) >= MAX_WAITING_CHECKS:
                continue  # it would drop the check, and that would count
            check_header = {**header, "client_id": client.client_id}
            if client.connection.notify(RequestCode.CHECK_TRANSACTION_STATE, check_header, message.payload):
                unanswered[number] = unanswered.get(number, 0) + 1
                self._core.emit(
                    EventKind.TRANSACTION_CHECKED,
                    cause=half.cause,
                    group=half.group,
                    topic=message.topic,
                    client=client.client_id,
                    offset=offset,
                    n=half.checks + 1,
                )
                return True
        return False

    def _abandon(self, due: Sequence[DueHalf], messages: Mapping[int, HalfMessage], now: float) -> None:
        """Move messages to the topic where an operator finds them; a damaged one is only counted and logged."""
        if not due:
            return
        try:
            entry = self._topics.ensure_abandoned()
        except RlabError as error:
            self._abandoned.warning(
                logger, now, "broker %s: transactions cannot be abandoned: %s", self._core.name, error
            )
            self._table.later([each.offset for each in due], now + _RETRY_S)
            return
        for offset, half, why in due:
            message = messages.get(offset)
            reason = {AbandonReason.CHECKS: f"{half.checks} checks", AbandonReason.AGE: "age"}.get(why, "damaged")
            fate = f"goes to topic {ABANDONED_TOPIC}" if message is not None else "cannot be read"
            text = "broker %s: the transaction at %d of producer group %r is abandoned (%s); its message %s"
            values = (self._core.name, offset, half.group, reason, fate)
            self._abandoned.warning(logger, now, text, *values)
            if message is None:
                unread = HalfMessage(half.group, "", -1, 0, -1, half.cause, b"")
                self._transactions.drop(MarkKind.ABANDONED, [(offset, unread)], reason)
                continue
            published = PublishedHalf(offset, message, ABANDONED_TOPIC, entry.topic_id, 0)
            self._transactions.publish(MarkKind.ABANDONED, [published], reason)

    # --- what operators see ------------------------------------------------------------------------------------------

    def all_groups(self, connection: Connection, request: Command) -> Reply:
        """Every producer group with a member or an open transaction, sorted by name."""
        members: dict[str, int] = {}
        for client in self._groups.clients.values():
            for group in client.producer_groups:
                members[group] = members.get(group, 0) + 1
        n_open: dict[str, int] = {}
        oldest: dict[str, float] = {}
        for _, half in self._table:
            n_open[half.group] = n_open.get(half.group, 0) + 1
            oldest[half.group] = min(oldest.get(half.group, half.born), half.born)
        waiting, now = self._table.waiting(), self._core.loop.time()
        rows = [
            (group, members.get(group, 0), n_open.get(group, 0), now - oldest.get(group, now), waiting.get(group, 0))
            for group in sorted(members | n_open)
        ]
        return Reply({}, msgpack.packb(rows))

    def one_group(self, connection: Connection, request: Command) -> Reply:
        """The members of a producer group, and its oldest open transactions."""
        group = request.header["group"]
        members = [
            (client.client_id, client.connection.peer, group in client.checkers)
            for client in self._groups.clients.values()
            if group in client.producer_groups
        ]
        halves = sorted((offset, half) for offset, half in self._table if half.group == group)
        if not members and not halves:
            raise GroupNotExist(f"producer group {group!r} has no member and no open transaction on this broker")
        shown_halves = halves[:MAX_SHOWN_TRANSACTIONS]
        messages = self._transactions.log.read([offset for offset, _ in shown_halves]) if shown_halves else {}
        now = self._core.loop.time()
        rows = [
            (
                message_id_of(messages[offset].payload),
                messages[offset].topic,
                now - half.born,
                half.checks,
                -1.0 if half.waits else max(0.0, half.due - now),
            )
            for offset, half in shown_halves
            if offset in messages
        ]
        return Reply({}, msgpack.packb((members, rows, len(halves))))
