from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from traces.check.delivery import DeliveryCheck


def test_a_message_that_is_acknowledged_and_received_is_neither_lost_nor_a_duplicate() -> None:
    check = DeliveryCheck()
    check.acknowledged(0, 0)
    assert check.received(0, 0)
    assert (check.sent, check.received_unique, check.lost, check.duplicates) == (1, 1, 0, 0)


def test_a_message_may_be_received_before_its_producer_receives_that_it_is_stored() -> None:
    check = DeliveryCheck()
    assert check.received(0, 0)
    assert check.lost == 0
    check.acknowledged(0, 0)
    assert (check.sent, check.received_unique, check.lost, check.duplicates) == (1, 1, 0, 0)


def test_an_acknowledged_message_that_no_one_receives_is_lost_and_can_be_named() -> None:
    check = DeliveryCheck()
    for number in (0, 1, 2):
        check.acknowledged(7, number)
    check.received(7, 1)
    assert check.lost == 2
    assert check.missing(10) == [(7, 0), (7, 2)]
    assert check.missing(1) == [(7, 0)]


def test_every_receipt_after_the_first_is_a_duplicate() -> None:
    check = DeliveryCheck()
    check.received(0, 0)
    assert not check.received(0, 0)
    check.acknowledged(0, 0)
    assert not check.received(0, 0)
    assert (check.received_unique, check.duplicates, check.lost) == (1, 2, 0)


def test_a_send_that_failed_is_not_lost_and_its_first_receipt_is_not_a_duplicate() -> None:
    check = DeliveryCheck()
    check.failed(0, 0)
    check.failed(0, 1)
    assert (check.sent, check.failed_sends, check.lost) == (0, 2, 0)
    assert check.received(0, 1)
    assert not check.received(0, 1)
    assert (check.received_unique, check.duplicates, check.lost) == (1, 1, 0)


def test_a_message_that_was_received_before_its_send_failed_is_done() -> None:
    check = DeliveryCheck()
    check.received(0, 0)
    check.failed(0, 0)
    assert not check.received(0, 0)
    assert (check.received_unique, check.duplicates, check.lost) == (1, 1, 0)


def test_a_message_that_was_skipped_so_far_is_not_taken_for_a_duplicate() -> None:
    check = DeliveryCheck()
    check.received(0, 5)
    assert check.received(0, 3)
    assert check.duplicates == 0


def test_producers_are_counted_apart() -> None:
    check = DeliveryCheck()
    check.acknowledged(0, 0)
    assert check.received(1, 0)
    assert (check.lost, check.duplicates, check.received_unique) == (1, 0, 1)


_ACTIONS = st.lists(st.tuples(st.sampled_from(["send", "receive"]), st.integers(0, 2), st.integers(0, 9)), max_size=120)


@given(_ACTIONS, st.frozensets(st.tuples(st.integers(0, 2), st.integers(0, 9))))
def test_the_books_agree_with_plain_sets(
    actions: list[tuple[str, int, int]], failing: frozenset[tuple[int, int]]
) -> None:
    check = DeliveryCheck()
    resolved: dict[tuple[int, int], bool] = {}
    receipts: Counter[tuple[int, int]] = Counter()
    for action, producer, number in actions:
        message = (producer, number)
        if action == "receive":
            receipts[message] += 1
            assert check.received(*message) == (receipts[message] == 1)
        elif message not in resolved:
            resolved[message] = message not in failing
            (check.acknowledged if resolved[message] else check.failed)(*message)
        acknowledged = {each for each, ok in resolved.items() if ok}
        assert check.sent == len(acknowledged)
        assert check.failed_sends == len(resolved) - len(acknowledged)
        assert check.received_unique == len(receipts)
        assert check.duplicates == receipts.total() - len(receipts)
        assert check.lost == len(acknowledged - receipts.keys())
        assert check.missing(99) == sorted(acknowledged - receipts.keys())
