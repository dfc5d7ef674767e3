"""Entries and windows as they are stored; the laws are in `tests/property/test_pop_ledger.py`."""

from __future__ import annotations

import sys
from typing import Any

import msgpack
import pytest

from broker.pop.journal import (
    DELIVER,
    EXTEND,
    UNDO_DELIVERY,
    Times,
    apply_entry,
    cut_window,
    decode_offsets,
    decode_window,
    encode_offsets,
    encode_window,
)
from broker.pop.window import PopWindow

TIMES = Times(100.0, 5_000_000)


def window_of(n: int) -> PopWindow:
    window = PopWindow(3)
    window.deliver(range(3, 3 + n), upto=3 + n, token=2**63 + 1, client_id="c", now=99.0, visible_at=110.0)
    return window


@pytest.mark.parametrize("offsets", [[7], [7, 8, 9], [7, 9], [7, 9, 8], [0, 2, 5]])
def test_offsets_are_read_as_they_were_written(offsets: list[int]) -> None:
    wire: list[Any] = msgpack.unpackb(msgpack.packb(encode_offsets(sorted(offsets))))  # type: ignore[assignment]
    assert list(decode_offsets(wire)) == sorted(offsets)


def test_a_window_goes_on_at_the_same_moment_on_the_wall_whatever_the_clock_of_the_loop_says() -> None:
    data = encode_window(window_of(4), TIMES)
    again = decode_window(data, Times(7.0, 5_002_000))
    [(token, batch)] = again.batches.items()
    assert (token, batch.client_id, batch.since, batch.visible_at) == (2**63 + 1, "c", 4.0, 15.0)
    assert (again.committed, again.next_offset, again.next_deadline()) == (3, 7, 15.0)


def test_messages_are_not_invisible_for_longer_because_the_clock_was_set_back_before_a_start() -> None:
    """They were delivered in the future; their 11 s begin with the start, as nobody knows how much is over."""
    back = Times(7.0, TIMES.now_ms - 90 * 86_400_000)
    [batch] = decode_window(encode_window(window_of(4), TIMES), back).batches.values()
    assert (batch.since, batch.visible_at) == (7.0, 18.0)
    window, sent_ms = PopWindow(3), int(TIMES.now_ms)
    apply_entry(window, (DELIVER, 1, 5, sent_ms, sent_ms + 11_000, "c", 6, [3, 3]), back)
    assert window.next_deadline() == 18.0
    apply_entry(window, (EXTEND, 1, 3, 5, 6, sent_ms + 1_000, sent_ms + 61_000), back)
    apply_entry(window, (EXTEND, 1, 4, 5, 6, sent_ms + 1_002, sent_ms + 61_000), back)
    apply_entry(window, (EXTEND, 1, 5, 5, 7, sent_ms + 1_000, sent_ms + 3_000), back)
    assert [batch.visible_at for batch in window.batches.values()] == [67.0, 9.0]
    apply_entry(window, (UNDO_DELIVERY, 1, 6, sent_ms), back)
    assert window.next_deadline() == 7.0


def test_a_window_of_a_machine_with_the_other_byte_order_is_read() -> None:
    unpacked: list[Any] = msgpack.unpackb(encode_window(window_of(2), TIMES))  # type: ignore[assignment]
    _, committed, tokens, attempts, batches = unpacked
    swapped = tokens[7::-1] + tokens[:7:-1], attempts[1::-1] + attempts[:1:-1]
    other = "big" if sys.byteorder == "little" else "little"
    again = decode_window(msgpack.packb([other, committed, *swapped, batches]), TIMES)
    assert again.columns() == window_of(2).columns()


@pytest.mark.parametrize(("end", "committed", "next_offset"), [(9, 3, 7), (5, 3, 5), (3, 3, 3), (1, 1, 1)])
def test_a_window_ends_where_its_queue_ends(end: int, committed: int, next_offset: int) -> None:
    again = cut_window(window_of(4), end)
    assert (again.committed, again.next_offset, again.invisible) == (committed, next_offset, next_offset - committed)


def test_an_entry_of_a_kind_that_is_not_known_is_not_passed_over() -> None:
    with pytest.raises(AssertionError, match="kind 99"):
        apply_entry(PopWindow(0), (99, 1), TIMES)
