"""Answers the checks of brokers: the outcome of a transaction of this producer, or of a producer that has ended.

A broker checks a transaction that was not ended in time: it asks any producer of the group. A check is one-way and is
repeated, so it may be dropped: when too many wait, and when the same check is being answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

from client.instance.background import BackgroundTasks, OnFailure
from client.instance.user_code import UserCode, is_failure, log_failure
from client.listeners.threads import DaemonThreads
from client.transactions.batcher import TransactionBatcher
from model.decode import decode_messages
from model.errors import RlabError
from model.limits import MAX_RUNNING_CHECKS, MAX_WAITING_CHECKS, REQUEST_TIMEOUT_S
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.record import RecordCorrupt, encode_record
from model.transaction import TransactionState
from remoting.command import Command
from remoting.connection import Connection

logger = logging.getLogger(__name__)

Check = Callable[[MessageExt], Awaitable[TransactionState] | TransactionState]
"""Gets the half message, and returns the state of its transaction. The offset is -1, because it has none yet."""


class CheckAnswers:
    """The checks of one producer, each answered in a task; a plain function is called in a thread.

    `known` returns the state that this process has for a message id: the state of a transaction that is being ended,
    UNKNOWN while its block runs, and None for any other.
    """

    def __init__(
        self,
        group: str,
        check: Check,
        known_state: Callable[[str], TransactionState | None],
        on_failure: OnFailure | None = None,
    ) -> None:
        self._group = group
        self._code = UserCode(check)
        self._known = known_state
        self._tasks = BackgroundTasks(f"checks of producer group {group}", on_failure)
        self.check = self._tasks.check
        self._threads = DaemonThreads(MAX_RUNNING_CHECKS, f"rlab check {group}")
        self._at_once = asyncio.Semaphore(MAX_RUNNING_CHECKS)
        self._asked: dict[tuple[Connection, int], None] = {}
        self._ends: TransactionBatcher

    async def start(self, end_batcher: TransactionBatcher) -> None:
        """Begin to answer. Cancellation: nothing is left running."""
        self._ends = end_batcher
        await self._tasks.start()

    def start_soon(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine function in the same tasks, until it ends or `stop` is called."""
        self._tasks.start_soon(function)

    async def stop(self) -> None:
        """Stop answering; checks that run are cancelled, and are repeated elsewhere. Idempotent."""
        await self._tasks.stop()
        self._threads.shutdown()

    def answer(self, connection: Connection, broker_name: str, command: Command) -> None:
        """Answer a check in a separate task; drop it when too many wait, or when this one waits already."""
        key = connection, command.header["offset"]
        if key in self._asked or len(self._asked) >= MAX_WAITING_CHECKS or not self._tasks.running:
            return
        message = _message_of(broker_name, command)
        if message is None:
            logger.error("a check of group %s is about bytes that are not a message; it is not answered", self._group)
            return
        self._asked[key] = None
        self._tasks.start_soon(self._answer, key, message)

    async def _answer(self, key: tuple[Connection, int], message: MessageExt) -> None:
        connection, offset = key
        try:
            async with self._at_once:
                state = self._known(message.message_id)
                if state is None:
                    state = await self._ask_user(message)
            row = (offset, message.message_id, int(state))
            deadline = asyncio.get_running_loop().time() + REQUEST_TIMEOUT_S
            await self._ends.end(connection, row, deadline, from_check=True)
        except RlabError as error:
            logger.warning("the answer to a check of %s is lost, the broker repeats it: %s", message.message_id, error)
        finally:
            del self._asked[key]

    async def _ask_user(self, message: MessageExt) -> TransactionState:
        """Call the user's check; an exception, or a value that is not a state, is logged and counts as UNKNOWN."""
        task = asyncio.current_task()
        cancelling = task.cancelling() if task is not None else 0
        try:
            return TransactionState(cast(Any, await self._code(self._threads, message)))
        except BaseException as error:
            if not is_failure(error, task, cancelling):
                raise
            log_values = (self._group, message.message_id, self._code.name)
            log_failure(logger, error, "the check of group %s failed on message %s (%s)", *log_values)
            return TransactionState.UNKNOWN


def _message_of(broker_name: str, command: Command) -> MessageExt | None:
    header = command.header
    queue = MessageQueue(header["topic"], broker_name, header["queue_id"])
    record = encode_record(0, queue.queue_id, 0, 0, 0, 0, 0, command.body or b"")
    try:
        (message,) = decode_messages(queue, record)
    except RecordCorrupt:
        return None
    return message._replace(offset=-1)
