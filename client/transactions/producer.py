"""Sends messages in transactions. RocketMQ: TransactionMQProducer.

A half message is stored where no consumer sees it, then the local branch runs, then the half message is committed or
rolled back. If that last step is lost, with the message or with this process, the broker asks a producer of the same
group, and `check` returns the outcome of the local branch:

    async def check(message):
        return TransactionState.COMMIT if await orders.has(message.message_id) else TransactionState.ROLLBACK

    async with TransactionProducer("127.0.0.1:9876", "orders", check=check) as producer:
        async with producer.transaction(Message("payments", b"...")) as tx:
            await orders.insert(tx.message_id, ...)

A check may run in another process while the local branch is still running. If the check finds no outcome, it has to
ensure that the local branch cannot succeed later, or return `UNKNOWN`. docs/transactions.md shows how: the check
inserts a row that makes the local branch fail.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from client.instance.member import CheckingProducer
from client.produce.producer import Producer
from client.produce.queue_picker import check_queue_of
from client.transactions.batcher import TransactionBatcher
from client.transactions.checks import Check, CheckAnswers
from client.transactions.transaction import Transaction
from model.arguments import check_text
from model.errors import ConfigError, IllegalOperation, MessageIllegal, RlabError, TransactionLost
from model.limits import MAX_TRANSACTION_TIMEOUT_S, SEND_RETRIES, SEND_TIMEOUT_S
from model.message import Message, check_message, tag_hash
from model.message_queue import MessageQueue
from model.names import TRACE_TOPIC
from model.transaction import EndOutcome, TransactionState
from remoting.command import Command
from remoting.connection import Connection

logger = logging.getLogger(__name__)

_REFUSED = {
    "delay_ms": "a delayed message is published when its time comes, whatever becomes of a transaction: send it with "
    "`send(..., delay_ms=...)` in the local branch, or let the consumer wait",
    "oneway": "a one-way send learns nothing of its half message, so it could not be ended: leave `oneway` out",
}


class TransactionProducer(Producer, CheckingProducer):
    """Sends messages that consumers get exactly if a local change has happened; and plain messages, as `Producer`.

    Args:
        name_servers: addresses, a string separated by commas or a list.
        group: producer group. Its members answer for each other: all need the same `check`, and access to the same
            data.
        check: gets a message whose transaction is still open, and returns its `TransactionState`. An `async def`
            runs on the event loop, a plain function in a thread. An exception counts as UNKNOWN and is logged.
        retries: further attempts to store a half message after an error that says that it was not stored.
        timeout_s: seconds for that, and for an end.
        **options: as of `Producer`.

    Raises:
        ConfigError, InvalidParameter: an option or name is wrong.
    """

    def __init__(
        self,
        name_servers: str | Sequence[str],
        group: str,
        *,
        check: Check,
        retries: int = SEND_RETRIES,
        timeout_s: float = SEND_TIMEOUT_S,
        **options: Any,
    ) -> None:
        if not callable(check):
            raise ConfigError(f"check must be a function of a message, got {check!r}")
        super().__init__(name_servers, group, retries=retries, timeout_s=timeout_s, **options)
        self._begun: dict[str, Transaction] = {}  # by message id
        self._answers = CheckAnswers(self.group, check, self._known_state, self._checks_failed)

    # --- lifecycle ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the producer; see `Producer.start`. Brokers ask it from its first heartbeat on."""
        self._begin_start("producer")  # before anything of a start that may be refused
        self._ends = TransactionBatcher(asyncio.get_running_loop(), self.group)
        await self._answers.start(self._ends)
        try:
            await self._connect()
        except BaseException:  # cancellation too; `stop` shields itself
            await self._answers.stop()
            raise
        self._answers.start_soon(self._announce)

    async def _announce(self) -> None:
        """Register with every broker to answer checks: a producer that is gone may have sent to any of them."""
        instance = self._running()
        try:
            await instance.update_routes((TRACE_TOPIC,))
        except RlabError as error:
            logger.warning("producer group %s is announced later: %s", self.group, error)
        await instance.heartbeats.send()

    def topics(self) -> tuple[str, ...]:
        """See `Resident`: its topics, and one that every broker has, so that it knows all brokers."""
        return tuple(sorted({*super().topics(), TRACE_TOPIC}))

    async def shutdown(self) -> None:
        """Close; see `Producer.shutdown`. Transactions that are not ended are left to the checks."""
        self._check_loop()
        await self._answers.stop()
        await super().shutdown()

    async def _checks_failed(self, reason: BaseException, hurry: bool) -> bool:
        """Close: brokers would go on to ask a producer that does not answer. See `BackgroundTasks`."""
        await super().shutdown()
        return False

    def _not_running(self, topic: str) -> tuple[MessageQueue, ...]:
        self._answers.check()
        return super()._not_running(topic)

    # --- transactions ------------------------------------------------------------------------------------------------

    def transaction(
        self,
        message: Message,
        *,
        key: str | None = None,
        queue: MessageQueue | None = None,
        check_after_s: float | None = None,
        **more: Any,
    ) -> Transaction:
        """Make a transaction; `async with` runs its local branch.

        Args:
            message: what a commit publishes.
            key: as for `send`.
            queue: as for `send`.
            check_after_s: how long the local branch may take before the group is asked about it; the broker's
                `--transaction-timeout` by default.
            **more: options of sends that transactions do not support; refused.

        Raises:
            MessageIllegal: no message that can be sent, or several.
            InvalidParameter: a key or queue that no message can have.
            IllegalOperation: an option that does not go with a transaction.
        """
        for name in more:
            raise IllegalOperation(
                f"{name} and a transaction exclude each other: {_REFUSED.get(name, 'transactions have no such option')}"
            )
        if not isinstance(message, Message):
            raise MessageIllegal(
                f"a transaction has one message, got {type(message).__name__}: the messages of a batch could not be "
                "committed one by one; send one that refers to them all, or make a transaction for each"
            )
        check_message(message)
        if queue is not None:
            check_queue_of(message.topic, queue)
        elif key is not None:
            check_text("key", key)
        if check_after_s is not None and not (
            isinstance(check_after_s, int | float) and 0 < check_after_s <= MAX_TRANSACTION_TIMEOUT_S
        ):
            raise IllegalOperation(f"check_after_s must be more than 0, up to {MAX_TRANSACTION_TIMEOUT_S:g}")
        return Transaction(self, message, key, queue, -1 if check_after_s is None else int(check_after_s * 1000))

    async def begin(self, transaction: Transaction) -> None:
        """Store the half message of a transaction; called by it.

        An attempt is repeated only if it certainly stored nothing: a second half message would be committed like the
        first one if the check finds the outcome of the local branch by the content of the message.
        """
        message, topic = transaction.message, transaction.message.topic
        queues = self._publish_queues(topic) or await self._resolve(topic)
        now = self._time()
        deadline = now + self._timeout_s
        transaction.message_id, payload = self._encode(message)
        tag = tag_hash(message.tags) if message.tags else 0
        self._begun[transaction.message_id] = transaction
        attempt, avoid = 1, None
        try:
            while True:
                chosen = transaction.queue or self._choose(topic, queues, transaction.key, avoid, now)
                try:
                    connection = self._masters.get(chosen.broker_name)
                    if connection is None or not connection.ready:
                        connection = await self._connection_to(chosen.broker_name, deadline - now)
                    transaction.offset = await self._ends.half(
                        connection, (topic, chosen.queue_id, tag, transaction.check_after_ms, payload), deadline
                    )
                except RlabError as error:
                    self._picker.record_failure(chosen, error, self._time())
                    other_queues = queues if transaction.queue is None and transaction.key is None else ()
                    if not _was_not_stored(error):
                        raise
                    attempt = await self._next_attempt(attempt, error, chosen, other_queues, deadline)
                    if not attempt:
                        raise
                    now, avoid = self._time(), chosen.broker_name
                    queues = await self._new_queues(topic, queues)
                else:
                    transaction.queue = chosen
                    return
        except BaseException:  # cancellation too: a block that was never entered must not answer checks
            del self._begun[transaction.message_id]
            raise

    async def end(self, transaction: Transaction) -> None:
        """Report to the broker how a transaction ended; called by it. If that fails, the check settles it."""
        state, queue = transaction.state, transaction.queue
        assert state is not None, "its block is left"
        assert queue is not None, "it was begun"
        self._check_loop()
        try:
            if state is TransactionState.UNKNOWN:
                return
            outcome = await self._report(queue.broker_name, (transaction.offset, transaction.message_id, int(state)))
        except RlabError as error:
            logger.warning("transaction %s is left to the check: %s", transaction.message_id, error)
            return
        finally:
            del self._begun[transaction.message_id]
        if outcome == EndOutcome.NOT_FOUND and state is TransactionState.COMMIT:
            raise TransactionLost(
                f"message {transaction.message_id} of topic {transaction.message.topic!r} cannot be committed, because "
                "its broker has lost it, or its topic was deleted. The local branch is done: send the message again"
            )
        if outcome == EndOutcome.ENDED_BEFORE:
            logger.info("transaction %s was ended by a check before", transaction.message_id)

    async def _report(self, broker_name: str, row: tuple[int, str, int]) -> int:
        """Send an end to the master of the broker, also to the next one in time; a repeated end has no effect."""
        instance, until = self._running(), self._time() + self._timeout_s
        while True:
            try:
                connection = self._masters.get(broker_name)
                if connection is None or not connection.ready:
                    connection = await self._connection_to(broker_name, until - self._time())
                return await self._ends.end(connection, row, until)
            except RlabError as error:
                is_worth = instance.is_worth_waiting(broker_name, error, repeats=True)
                if not (is_worth and await instance.wait_for_master(broker_name, until)):
                    raise

    # --- checks ------------------------------------------------------------------------------------------------------

    def answer_check(self, connection: Connection, broker_name: str, command: Command) -> None:
        """Answer a broker that asks about a transaction of the group; see `CheckingProducer`."""
        self._answers.answer(connection, broker_name, command)

    def _known_state(self, message_id: str) -> TransactionState | None:
        """The state of a transaction of this producer that is not ended yet; see `CheckAnswers`."""
        transaction = self._begun.get(message_id)
        return None if transaction is None else transaction.state or TransactionState.UNKNOWN


def _was_not_stored(error: RlabError) -> bool:
    """Whether an attempt certainly stored no half message."""
    return error.definite
