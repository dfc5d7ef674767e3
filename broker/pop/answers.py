"""PopAnswers: answers pops once their deliveries are stored, and returns messages whose client is gone.

A delivery is stored before its answer leaves. If it cannot be stored, or the client closes its connection or cancels
the pop before that, the next pop gets the messages at once, and the delivery is not counted.
"""

from __future__ import annotations

from functools import partial

import msgpack

from broker.feature import Core
from broker.pop.delivery import Batch
from broker.pop.journal import Times
from broker.pop.ledger import PopLedger
from broker.pop.store import PopStore
from model.errors import RlabError
from model.response_code import ResponseCode
from remoting.command import Command, Reply
from remoting.connection import Connection

NOTHING = Reply({"remark": "nothing new"}, None, int(ResponseCode.PULL_NOT_FOUND))


def is_named(pop: Command, cancel: Command) -> bool:
    """Whether a CANCEL_POP is for a pop of its connection."""
    popped, canceller = pop.header, cancel.header
    is_of_member = (popped["group"], popped["client_id"]) == (canceller["group"], canceller["client_id"])
    return is_of_member and canceller.get("pop") in (None, pop.opaque)


class PopAnswers:
    """The answers of one broker that wait for the metadata."""

    def __init__(self, core: Core, store: PopStore, ledger: PopLedger) -> None:
        self._core = core
        self._store = store
        self._ledger = ledger
        self._waiting: dict[tuple[Connection, int], Command] = {}  # by their opaque
        self._cancelled: set[tuple[Connection, int]] = set()  # of those that wait

    def answer(self, connection: Connection, request: Command, batches: list[Batch]) -> None:
        """Answer a pop with these batches, once they are stored."""
        self._waiting[connection, request.opaque] = request
        self._core.barrier.after_commit(partial(self._stored, connection, request, batches))
        self._store.compact_if_long(self._ledger, self._times())

    def cancel(self, connection: Connection, cancel: Command) -> bool:
        """Return the messages of the named pops whose answers wait; returns whether there are such pops."""
        named_keys = [
            request_key
            for request_key, pop in self._waiting.items()
            if request_key[0] is connection and is_named(pop, cancel)
        ]
        self._cancelled.update(named_keys)
        return bool(named_keys)

    def _stored(
        self, connection: Connection, request: Command, batches: list[Batch], failure: RlabError | None
    ) -> None:
        request_key = (connection, request.opaque)
        self._waiting.pop(request_key, None)
        is_cancelled = request_key in self._cancelled
        self._cancelled.discard(request_key)
        if failure is None and not connection.closed and not is_cancelled:
            connection.respond(request, {}, msgpack.packb([batch.row for batch in batches]))
            return
        # No client has these messages: the next pop must not wait until their invisible time has expired.
        times = self._times()
        for batch in batches:
            # A reset may have replaced the window while the delivery was being stored; a new one does not have it.
            if self._ledger.queues.get(batch.queue.key) is batch.queue:
                self._ledger.undo_delivery(batch.queue, batch.token, times)
        self._core.barrier.metadata_changed()
        self._core.driver.wake_by(times.now)
        if failure is not None:
            connection.respond_error(request, failure)
        else:
            connection.respond(request, *NOTHING)

    def _times(self) -> Times:
        return Times(self._core.loop.time(), self._core.clock_ms())
