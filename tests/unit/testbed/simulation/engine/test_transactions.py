"""Programmes with transactions: what is committed is delivered, nothing else is, and a whole cluster ends all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.transactions.table import TransactionTable
from testbed.simulation.engine.programme import GroupPart, LoadPart, Programme, PromisePart, Step
from testbed.simulation.engine.run import run_programme

SHORT = Programme(
    load=LoadPart(producers=2, messages=40, pause_s=0.1, branch_s=0.5, fails=0.3, undecided=0.3),
    group=(GroupPart(name="shipping", members=1),),
    promise=PromisePart(settle_s=20.0),
    lasts_s=5.0,
)


def test_what_is_committed_is_delivered_and_nothing_else() -> None:
    outcome = run_programme(SHORT)
    assert outcome.findings == ()
    assert 20 < outcome.sent < 70, "some branches failed, and some were rolled back by a check"
    assert outcome.deliveries == outcome.sent


def test_a_producer_that_is_killed_leaves_its_transactions_to_the_others() -> None:
    kill = Step(at_s=2.0, do="crash", who="producer-1")
    outcome = run_programme(replace(SHORT, step=(kill, Step(at_s=4.0, do="start", who="producer-1"))))
    assert outcome.findings == ()
    assert outcome.acts == {"crash": 1, "start": 1}


def test_a_transaction_that_no_one_ends_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody is ever asked.
    monkeypatch.setattr(TransactionTable, "next_due", lambda self: None)
    monkeypatch.setattr(TransactionTable, "remove_due", lambda self, now, limit: [])
    few = replace(SHORT, load=replace(SHORT.load, messages=10))
    assert "open-transaction" in run_programme(few).kinds
