"""Group commit: what the handlers of one loop turn want stored is written once, and only then are they answered.

A pipelined burst of sends arrives in one read of the socket; its records go to the file with one write, and its answers
leave with one write each connection. An error of that write reaches every request of the burst, so nothing is ever
acknowledged that was not written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.metadata_store import MetadataStore
from broker.store.message_store import MessageStore
from model.errors import RlabError, SystemError_
from remoting.command import Command
from remoting.connection import Connection

Written = Callable[[RlabError | None], None]


class WriteBarrier:
    """The write at the end of a loop turn.

    Args:
        loop: the running loop.
        store: where messages go.
        metadata: where topics, offsets and the rest go.
        on_new_messages: called with (topic, queue id) of every queue that has something new to read.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: MessageStore,
        metadata: MetadataStore,
        on_new_messages: Callable[[str, int], None],
    ) -> None:
        self._loop = loop
        self._store = store
        self._metadata = metadata
        self._on_new_messages = on_new_messages
        self._scheduled = False
        self._sends: list[tuple[Connection, Command, int]] = []
        self._queues: dict[tuple[str, int], None] = {}
        self._callbacks: list[Written] = []

    def answer_send(self, connection: Connection, request: Command, topic: str, queue_id: int, offset: int) -> None:
        """Answer a send with its offset once its message is written."""
        self._sends.append((connection, request, offset))
        self._queues[(topic, queue_id)] = None
        if not self._scheduled:
            self._schedule()

    def after_write(self, callback: Written, queue: tuple[str, int] | None = None) -> None:
        """Call back once everything of this turn is written, with None or with what went wrong.

        Args:
            callback: must not raise.
            queue: (topic, queue id) that got a message with it, if any.
        """
        self._callbacks.append(callback)
        if queue is not None:
            self._queues[queue] = None
        if not self._scheduled:
            self._schedule()

    def metadata_changed(self) -> None:
        """Write changed metadata at the end of this turn although nobody waits for it."""
        if not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write now. Called by the loop at the end of a turn, and once more when the broker stops."""
        self._scheduled = False
        sends, self._sends = self._sends, []
        callbacks, self._callbacks = self._callbacks, []
        queues, self._queues = self._queues, {}
        failure = self._write()
        if failure is None:
            for connection, request, offset in sends:
                connection.respond(request, {"offset": offset})
        else:
            for connection, request, _ in sends:
                connection.respond_error(request, failure)
        for callback in callbacks:
            callback(failure)
        if failure is None:
            for topic, queue_id in queues:
                self._on_new_messages(topic, queue_id)

    def _write(self) -> RlabError | None:
        try:
            # Topics before messages: a record whose topic id nobody knows would be lost after a crash.
            self._metadata.commit()
            self._store.flush()
        except RlabError as error:
            # Messages of this turn that are still buffered must not be written by the next one: they are refused now.
            self._store.discard()
            return error if error.code is not None else SystemError_(str(error))
        return None
