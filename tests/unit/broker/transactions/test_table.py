"""What the property in tests/property/test_transaction_table.py does not say."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from broker.transactions.table import AbandonReason, OpenHalf, TransactionOptions, TransactionTable
from model.errors import ConfigError, SystemBusy


def half(due: float, born: float = 0.0) -> OpenHalf:
    return OpenHalf("g", "c", 0, born, due)


@pytest.mark.parametrize("name", ["timeout_s", "check_interval_s", "max_checks", "keep_h"])
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_an_option_that_is_not_positive_is_refused_by_its_name(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"transaction_{name}"):
        TransactionOptions(**{name: value})  # type: ignore[arg-type]  # an option of each type


def test_a_full_table_takes_no_more_until_one_is_ended() -> None:
    table = TransactionTable(TransactionOptions(), max_open=2)
    table.add_batch(0, 2, half(6.0))
    with pytest.raises(SystemBusy, match="2 open transactions"):
        table.check_room(1)
    table.begin_end(0)
    with pytest.raises(SystemBusy):
        table.check_room(1)
    table.ended([0])
    table.check_room(1)


def test_a_pass_over_a_hundred_thousand_open_messages_touches_only_what_is_due() -> None:
    table = TransactionTable(TransactionOptions())
    for first in range(0, 100_000, 100):
        due = 5.0 if first == 50_000 else 1_000.0
        table.add_batch(first, 100, half(due))
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        due_now = table.remove_due(5.0, 256)
    finally:
        sys.setprofile(None)
    assert [each.offset for each in due_now] == list(range(50_000, 50_100))
    assert calls < 100 * 25, "a few for each that is due, and none for the others"


def test_an_old_message_is_abandoned_for_its_age_before_its_checks_are_counted() -> None:
    table = TransactionTable(TransactionOptions(keep_h=1, max_checks=1))
    table.add(0, half(6.0))
    table.add(1, half(6.0, born=3_599.0))
    for each in table.remove_due(10.0, 9):
        table.checked([each.offset], 10.0)
    assert [(each.offset, each.give_up) for each in table.remove_due(3_600.0, 9)] == [
        (0, AbandonReason.AGE),
        (1, AbandonReason.CHECKS),
    ]


def test_one_that_is_ended_waits_for_no_producer_any_more() -> None:
    table = TransactionTable(TransactionOptions())
    table.add(0, half(6.0))
    table.remove_due(6.0, 10)
    table.wait([0], 6.0)
    table.begin_end(0)
    assert table.waiting() == {}
    assert not table.producer_joined("g", 7.0)


def test_one_whose_end_could_not_be_written_is_due_again_after_the_interval() -> None:
    table = TransactionTable(TransactionOptions(check_interval_s=30))
    table.add(0, half(6.0))
    table.begin_end(0)
    table.reopen([0], 2.0)
    assert table.remove_due(31.9, 10) == []
    assert [each.offset for each in table.remove_due(32.0, 10)] == [0]
