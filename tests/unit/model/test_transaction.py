from __future__ import annotations

from model.transaction import EndOutcome, TransactionState


def test_the_states_have_the_numbers_of_rocketmq() -> None:
    assert {state.name: int(state) for state in TransactionState} == {"UNKNOWN": 0, "COMMIT": 8, "ROLLBACK": 12}


def test_only_what_was_done_now_counts_as_done() -> None:
    assert [bool(outcome) for outcome in EndOutcome] == [False, True, True]
