"""One transaction, with a producer that only notes what it is told."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import pytest

from client.transactions.transaction import Transaction
from model.errors import IllegalOperation
from model.message import Message
from model.transaction import TransactionState


class Notes:
    """What a producer was told of its transactions."""

    def __init__(self) -> None:
        self.reported: list[str] = []

    async def begin(self, transaction: Transaction) -> None:
        transaction.message_id = "id"
        self.reported.append("begin")

    async def end(self, transaction: Transaction) -> None:
        assert transaction.state is not None
        self.reported.append(transaction.state.name)


def make(notes: Notes) -> Transaction:
    return Transaction(notes, Message("t", b"x"), None, None, -1)


@pytest.mark.asyncio
async def test_the_end_follows_from_how_the_block_is_left() -> None:
    for act, error, state in (
        (None, None, "COMMIT"),
        (None, ZeroDivisionError, "ROLLBACK"),
        (Transaction.rollback, None, "ROLLBACK"),
        (Transaction.unknown, None, "UNKNOWN"),
        (Transaction.unknown, ZeroDivisionError, "ROLLBACK"),
        (None, asyncio.CancelledError, "UNKNOWN"),
        (None, KeyboardInterrupt, "UNKNOWN"),
    ):
        notes = Notes()
        with pytest.raises(error) if error is not None else nullcontext():
            async with make(notes) as transaction:
                if act is not None:
                    act(transaction)
                if error is not None:
                    raise error
        assert notes.reported == ["begin", state]


@pytest.mark.asyncio
async def test_a_transaction_is_entered_once() -> None:
    transaction = make(Notes())
    async with transaction:
        assert transaction.state is None
    with pytest.raises(IllegalOperation, match="entered once"):
        async with transaction:
            pass
    assert transaction.state is TransactionState.COMMIT
