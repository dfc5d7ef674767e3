"""Transactions under random faults, on the real code and on code in which one rule is broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from broker.store.records import records_from
from broker.transactions import checks as broker_checks
from broker.transactions import half_log
from broker.transactions.half_log import HalfLog
from broker.transactions.records import HALVES, MARKS, MarkKind
from broker.transactions.service import Transactions
from broker.transactions.table import TransactionTable
from client.transactions import producer as client_producer
from client.transactions.checks import CheckAnswers
from client.transactions.producer import TransactionProducer
from client.transactions.transaction import Transaction
from model.transaction import TransactionState
from testbed.simulation.engine.draw import draw
from testbed.simulation.engine.programme import Programme
from testbed.simulation.engine.run import run_programme

pytestmark = pytest.mark.simulation
LASTS_S = 15.0


@pytest.fixture(autouse=True)
def frequent_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_log, "TRANSACTIONS_PER_SNAPSHOT", 10)


# ----------------------------------------------------------------------------------------------------- broken rules

Break = Callable[[pytest.MonkeyPatch], None]


def a_rollback_publishes(patch: pytest.MonkeyPatch) -> None:
    drop = Transactions.drop

    def wrong(self: Transactions, kind: MarkKind, ended: Any, *rest: Any) -> None:
        self._commit(dict(ended), *rest) if kind is MarkKind.ROLLED_BACK else drop(self, kind, ended, *rest)

    patch.setattr(Transactions, "drop", wrong)


def a_half_message_is_published_at_once(patch: pytest.MonkeyPatch) -> None:
    append = HalfLog.append_halves

    def wrong(self: HalfLog, halves: Any, *rest: Any) -> int:
        for half in halves:
            self._store.append(self._topics.existing(half.topic).topic_id, half.queue_id, half.payload, half.tag_hash)
        return append(self, halves, *rest)

    patch.setattr(HalfLog, "append_halves", wrong)


def a_repeated_commit_publishes_again(patch: pytest.MonkeyPatch) -> None:
    ended, spared = TransactionTable.ended, set[tuple[TransactionTable, int]]()

    def wrong(self: TransactionTable, offsets: Any) -> None:
        again = [offset for offset in offsets if offset % 3 == 0 and (self, offset) not in spared]
        spared.update((self, offset) for offset in again)
        ended(self, [offset for offset in offsets if offset not in again])
        self.reopen(again, 0.0)

    patch.setattr(TransactionTable, "ended", wrong)


def a_commit_leaves_no_mark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(half_log, "encode_mark", lambda mark: b"" if mark.kind is MarkKind.COMMITTED else b"\xc0")


def a_restart_forgets_half_messages(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(half_log, "records_from", lambda *place: iter(()) if place[2] == HALVES else records_from(*place))


def a_restart_forgets_marks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(half_log, "records_from", lambda *place: iter(()) if place[2] == MARKS else records_from(*place))


def a_snapshot_forgets_what_is_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HalfLog, "_restore", lambda self, low: None)


def a_failed_write_ends_the_transaction(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionTable, "reopen", lambda self, offsets, now: self.ended(offsets))


def no_one_is_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broker_checks.TransactionChecks, "_ask_one", lambda self, offset, half, message: True)


def only_the_sender_is_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        broker_checks,
        "producers_to_ask",
        lambda producers, half, offset: [n for n in producers if n == half.client],
    )


def a_check_comes_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionTable, "checked", lambda self, offsets, now: None)


def the_answer_unknown_rolls_back(patch: pytest.MonkeyPatch) -> None:
    ask = CheckAnswers._ask_user

    async def wrong(self: CheckAnswers, message: Any) -> TransactionState:
        return await ask(self, message) or TransactionState.ROLLBACK

    patch.setattr(CheckAnswers, "_ask_user", wrong)


def a_check_of_a_branch_that_runs_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        TransactionProducer,
        "_known_state",
        lambda self, message_id: self._begun.get(message_id) and TransactionState.COMMIT,
    )


def a_failed_branch_commits(patch: pytest.MonkeyPatch) -> None:
    leave = Transaction.__aexit__
    patch.setattr(Transaction, "__aexit__", lambda self, kind, *rest: leave(self, None, *rest))


def a_cancelled_branch_rolls_back(patch: pytest.MonkeyPatch) -> None:
    leave = Transaction.__aexit__
    patch.setattr(Transaction, "__aexit__", lambda self, kind, *rest: leave(self, kind and ValueError, *rest))


def a_half_message_without_an_answer_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(client_producer, "_was_not_stored", lambda error: True)


RULES: dict[Break, int] = {
    a_rollback_publishes: 0,
    a_half_message_is_published_at_once: 0,
    a_repeated_commit_publishes_again: 0,
    a_commit_leaves_no_mark: 0,
    a_restart_forgets_half_messages: 0,
    a_restart_forgets_marks: 0,
    a_snapshot_forgets_what_is_open: 0,
    a_failed_write_ends_the_transaction: 0,
    no_one_is_asked: 0,
    only_the_sender_is_asked: 0,
    a_check_comes_once: 0,
    the_answer_unknown_rolls_back: 0,
    a_check_of_a_branch_that_runs_commits: 0,
    a_failed_branch_commits: 0,
    a_cancelled_branch_rolls_back: 1,
}
"""Each with the first seed that finds it; the search begins there, to be short."""


def short(seed: int) -> Programme:
    """The first half of a drawn programme."""
    drawn = draw(seed, "transactions")
    steps = tuple(step for step in drawn.step if step.at_s < LASTS_S)
    return replace(drawn, lasts_s=LASTS_S, load=replace(drawn.load, messages=30), step=steps)


@pytest.mark.parametrize("broken", RULES, ids=lambda broken: broken.__name__)
def test_a_run_finds_each_broken_rule(broken: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    seeds = range(RULES[broken], RULES[broken] + 20)
    found = (run_programme(short(seed)).kinds for seed in seeds)
    assert set(next(filter(None, found))) <= {"phantom", "duplicate", "lost-write", "open-transaction", "breakdown"}


def test_a_half_message_that_is_sent_again_without_an_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    a_half_message_without_an_answer_is_sent_again(monkeypatch)
    assert run_programme(draw(3, "transactions")).findings  # few programmes lose an answer to one
