"""PopHandles: the requests that name popped messages by their receipt handles.

RocketMQ: AckMessageProcessor, ChangeInvisibleTimeProcessor. A handle is checked against the delivery token, which is
random: neither a guess nor an old handle works.

    ack                    the messages are consumed
    change invisible time  visible later, or at once; the message gets a new handle
    keep                   invisible while the client is connected
    return                 visible at once, and the delivery is not counted
    dead letter            copied to the DLQ of the group and acknowledged, once the copy is stored
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import msgpack

from broker.feature import Core
from broker.groups.settings import StoredGroupSettings
from broker.pop.forwarder import PopForwarder
from broker.pop.journal import Times
from broker.pop.ledger import GroupQueue, PopKey, PopLedger, exclude_offsets
from broker.pop.renewals import Renewals
from broker.pop.store import PopStore
from broker.pop.tokens import Tokens
from model.errors import ReceiptHandleDead, RlabError
from remoting.body import rows_of
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler

_EXTENSION_STEP_S = 0.01
"""Invisible times of extended messages are rounded up to it, so that those of one batch stay together."""


class PopHandles:
    """Serves one broker.

    `changed` is called with each queue of which messages were acknowledged, `wake` with each of which some were given
    back.
    """

    def __init__(
        self,
        core: Core,
        settings: StoredGroupSettings,
        store: PopStore,
        ledger: PopLedger,
        tokens: Tokens,
        forwarder: PopForwarder,
        renewals: Renewals,
        changed: Callable[[GroupQueue], None],
        wake: Callable[[PopKey], None],
    ) -> None:
        self._core = core
        self._settings = settings
        self._store = store
        self._ledger = ledger
        self._tokens = tokens
        self._forwarder = forwarder
        self._renewals = renewals
        self._changed = changed
        self._wake = wake

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.ACK_MESSAGE: self.ack,
            RequestCode.BATCH_ACK_MESSAGE: self.ack,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self.change_invisible_time,
            RequestCode.KEEP_MESSAGES: self.keep,
            RequestCode.RETURN_MESSAGES: self.give_back,
            RequestCode.POP_DEAD_LETTER: self.dead_letter,
        }

    def ack(self, connection: Connection, request: Command) -> None:
        """Acknowledge messages; the answer, once that is stored, names those whose handles were dead."""
        ledger, group, rows = self._ledger, request.header["group"], rows_of(request)
        self._store.check_backlog()
        dead_messages: list[tuple[str, int, int]] = []
        changed: dict[GroupQueue, None] = {}
        for topic, queue_id, token, offsets in rows:
            queue = ledger.queues.get(PopKey(group, topic, queue_id))
            acknowledged = [] if queue is None else ledger.ack(queue, token, offsets)
            if queue is not None and acknowledged:
                changed[queue] = None
            if len(acknowledged) < len(offsets):
                dead_messages.extend((topic, queue_id, offset) for offset in exclude_offsets(offsets, acknowledged))
        self._core.barrier.respond_after_commit(connection, request, {}, msgpack.packb(dead_messages))
        for queue in changed:
            self._changed(queue)
        self._store.compact_if_long(ledger, self._times())

    def keep(self, connection: Connection, request: Command) -> None:
        """Extend the invisible time of batches while their client is connected: it has received them.

        Messages are not extended from the pop on, because its answer may be lost, or arrive after the client's timeout:
        then messages that no consumer has would stay invisible for hours.
        """
        group, client_id = request.header["group"], request.header["client_id"]
        for topic, queue_id, token in rows_of(request):
            queue = self._ledger.queues.get(PopKey(group, topic, queue_id))
            batch = None if queue is None else queue.window.batches.get(token)
            if queue is not None and batch is not None and batch.client_id == client_id:
                self._ledger.keep(queue, token, self._times())
                self._renewals.record_client(group, client_id, connection)
        self._core.barrier.respond_after_commit(connection, request)
        self._store.compact_if_long(self._ledger, self._times())

    def give_back(self, connection: Connection, request: Command) -> None:
        """Make messages visible at once that no consumer has seen; the answer is as of an acknowledgement."""
        ledger, group = self._ledger, request.header["group"]
        self._store.check_backlog()
        dead_messages: list[tuple[str, int, int]] = []
        changed: dict[GroupQueue, None] = {}
        for topic, queue_id, token, offsets in rows_of(request):
            queue = ledger.queues.get(PopKey(group, topic, queue_id))
            returned = [] if queue is None else ledger.give_back(queue, token, offsets)
            if queue is not None and returned:
                changed[queue] = None
            dead_messages.extend((topic, queue_id, offset) for offset in exclude_offsets(offsets, returned))
        self._core.barrier.respond_after_commit(connection, request, {}, msgpack.packb(dead_messages))
        for queue in changed:
            self._wake(queue.key)
        self._store.compact_if_long(ledger, self._times())

    def change_invisible_time(self, connection: Connection, request: Command) -> None:
        """Change the end of a message's invisible time, and its handle; the answer follows once that is stored."""
        header, times = request.header, self._times()
        invisible_ms = header["invisible_ms"]
        if failed := header.get("failed_attempts"):
            delay_ms = self._settings.retry_delay_ms(header["group"], failed)
            invisible_ms = invisible_ms if delay_ms is None else delay_ms
        queue, token, offset = self._named(request)
        visible_at = times.now
        if invisible_ms:
            visible_at = math.ceil((times.now + invisible_ms / 1000) / _EXTENSION_STEP_S) * _EXTENSION_STEP_S
        new_token = self._tokens.for_extension(queue, token, visible_at)
        if not self._ledger.extend(queue, token, offset, new_token=new_token, times=times, visible_at=visible_at):
            raise _dead(request)
        self._core.driver.wake_by(visible_at)
        answer = {"token": new_token, "visible_ms": times.wall_ms(visible_at)}
        self._core.barrier.respond_after_commit(connection, request, answer)
        self._store.compact_if_long(self._ledger, times)

    def dead_letter(self, connection: Connection, request: Command) -> None:
        """Move a message to the DLQ of its group; the answer follows once the copy is stored.

        RocketMQ: ForwardMessageToDLQActivity, which copies through the client's own send-back and acknowledges after.
        """
        queue, token, offset = self._named(request)
        answer = partial(self._moved, connection, request)
        if not self._forwarder.dead_letter(queue, token, offset, answer):
            raise _dead(request)

    def _moved(self, connection: Connection, request: Command, failure: RlabError | None) -> None:
        if failure is not None:
            connection.respond_error(request, failure)
            return
        # A restart without the acknowledgement would move the message twice, after the answer that it is moved.
        self._core.barrier.respond_after_commit(connection, request)
        self._store.compact_if_long(self._ledger, self._times())

    def _named(self, request: Command) -> tuple[GroupQueue, int, int]:
        """The queue, token and offset of the handle in a request's header."""
        header = request.header
        self._store.check_backlog()
        queue = self._ledger.queues.get(PopKey(header["group"], header["topic"], header["queue_id"]))
        if queue is None:
            raise _dead(request)
        return queue, header["token"], header["offset"]

    def _times(self) -> Times:
        return Times(self._core.loop.time(), self._core.clock_ms())


def _dead(request: Command) -> ReceiptHandleDead:
    header = request.header
    return ReceiptHandleDead(
        f"the handle of message {header['offset']} of {header['topic']}:{header['queue_id']} is dead: the message was "
        "acknowledged or redelivered, or its invisible time was changed"
    )
