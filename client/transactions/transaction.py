"""Transaction: a half message, the local branch, and the commit or rollback that follows from it."""

from __future__ import annotations

from typing import Protocol, Self

from model.errors import IllegalOperation
from model.message import Message
from model.message_queue import MessageQueue
from model.transaction import TransactionState


class TransactionEnds(Protocol):
    """The methods of the producer that its transactions call."""

    async def begin(self, transaction: Transaction) -> None:
        """Store the half message."""
        ...

    async def end(self, transaction: Transaction) -> None:
        """Report to the broker how it ended."""
        ...


class Transaction:
    """A transaction, made by `TransactionProducer.transaction`: its block is the local branch.

    Entering the block stores the half message. Leaving it commits; an exception rolls back, and goes on. A cancelled
    block is left to the check, because its work may have happened.

    Attributes:
        message: the message that a commit publishes.
        message_id: its id, known in the block: store it with the local change, so that a check finds that.
        queue: where a commit publishes it.
    """

    def __init__(
        self,
        producer: TransactionEnds,
        message: Message,
        key: str | None,
        queue: MessageQueue | None,
        check_after_ms: int,
    ) -> None:
        self.message = message
        self.message_id = ""
        self.queue = queue
        self.key = key
        self.check_after_ms = check_after_ms
        self.state: TransactionState | None = None  # None while the block runs and has not said anything
        self.offset = -1  # of the half message, once its broker has it
        self._producer = producer

    async def __aenter__(self) -> Self:
        """Store the half message.

        Raises:
            RlabError: as `Producer.send`; nothing has happened here yet, so another transaction can try it again.

        Cancellation: the half message may be stored; its check finds nothing, and rolls it back.
        """
        if self.message_id:
            raise IllegalOperation("a transaction is entered once: make another one for another message")
        await self._producer.begin(self)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        """End the transaction according to the outcome of the block.

        Raises:
            TransactionLost: the broker has lost the half message of a transaction that is to be committed.

        Cancellation: it may be ended; otherwise the check does it.
        """
        if kind is not None:
            # Not of a cancellation: the statement that was cancelled may have been carried out.
            failed = issubclass(kind, Exception)
            self.state = TransactionState.ROLLBACK if failed else TransactionState.UNKNOWN
        elif self.state is None:
            self.state = TransactionState.COMMIT
        await self._producer.end(self)

    def unknown(self) -> None:
        """Leave the end to the check, which the broker sends after the timeout; an exception still rolls back."""
        self.state = TransactionState.UNKNOWN

    def rollback(self) -> None:
        """Roll back when the block is left, without an exception."""
        self.state = TransactionState.ROLLBACK
