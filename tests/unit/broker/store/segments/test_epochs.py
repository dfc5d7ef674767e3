"""The history of epochs: how a head repeats it, and where two logs part."""

from __future__ import annotations

from functools import partial

import pytest

from broker.store.segments.epochs import (
    MAX_EPOCHS,
    Epoch,
    SegmentHead,
    common_epoch,
    encode_epochs,
    read_head,
    with_epoch,
)
from broker.store.segments.scan import encode_queue_table, encode_topic_named, scan_segment
from model.record import encode_record

FIRST, SECOND, FOURTH = Epoch(1, 0, 1), Epoch(2, 1400, 2), Epoch(4, 2000, 1)
MESSAGE = encode_record(1, 0, 0, 5, 0, 0, 0, b"m")


def read_bytes(data: bytes, length: int, at: int) -> bytes:
    return data[at : at + length]


def head_of(data: bytes) -> SegmentHead:
    return read_head(partial(read_bytes, data), len(data))


def test_a_head_repeats_the_history_behind_the_table_of_queues() -> None:
    head = encode_queue_table({(1, 0): 3}, 5) + encode_epochs([FIRST, SECOND], 5) + encode_topic_named(1, 5, b"n")
    assert head_of(head) == head_of(head + MESSAGE) == SegmentHead((FIRST, SECOND), False)


def test_a_head_without_epochs_shows_whether_a_message_follows_it() -> None:
    head = encode_queue_table({(1, 0): 3}, 5) + encode_topic_named(1, 5, b"n")
    assert head_of(head) == SegmentHead((), False)
    assert head_of(head + MESSAGE) == SegmentHead((), True)


def test_a_head_that_is_cut_short_has_no_history() -> None:
    head = encode_queue_table({}, 5) + encode_epochs([FIRST], 5)
    assert all(head_of(head[:length]) == SegmentHead((), False) for length in range(len(head)))


def test_a_log_outside_a_set_has_not_one_byte_about_epochs() -> None:
    assert encode_epochs([], 5) == b""


def test_a_scan_passes_over_the_history_and_over_kinds_of_later_versions() -> None:
    later = encode_record(9, 9, 9, 5, 0, 0x8000 | 77, 0, b"of a later version")
    data = encode_queue_table({}, 5) + encode_epochs([FIRST], 5) + later + MESSAGE
    scan = scan_segment(partial(read_bytes, data), len(data), None)
    assert (scan.record_count, scan.damaged_bytes, scan.index.ends()) == (1, 0, {(1, 0): 1})


def test_an_epoch_without_a_byte_leaves_the_history_when_the_next_one_begins() -> None:
    assert with_epoch([FIRST, SECOND], Epoch(3, 1400, 1)) == (FIRST, Epoch(3, 1400, 1))


def test_a_history_has_at_most_so_many_epochs_and_keeps_the_newest() -> None:
    epochs: tuple[Epoch, ...] = ()
    for number in range(1, MAX_EPOCHS + 1):
        epochs = with_epoch(epochs, Epoch(number, number * 10, 1))
    assert (len(epochs), epochs[0].number) == (MAX_EPOCHS, 1)
    epochs = with_epoch(epochs, Epoch(MAX_EPOCHS + 1, 10**9, 1))
    assert (len(epochs), epochs[0].number, epochs[-1].number) == (MAX_EPOCHS, 2, MAX_EPOCHS + 1)


@pytest.mark.parametrize(
    ("own", "own_end", "masters", "masters_end", "cut"),
    [
        ([FIRST], 900, [FIRST], 1_200, 900),
        ([FIRST], 1_200, [FIRST], 900, 900),
        ([FIRST], 1_500, [FIRST, SECOND], 1_800, 1_400),
        ([FIRST, SECOND, Epoch(3, 2_300, 2)], 2_400, [FIRST, SECOND, FOURTH], 9_000, 2_000),
        ([FIRST, SECOND, Epoch(3, 1_900, 2)], 2_400, [FIRST, SECOND, FOURTH], 9_000, 1_900),
        ([FIRST, SECOND], 1_450, [FIRST, Epoch(3, 1_400, 1)], 1_500, 1_400),
        ([SECOND], 1_500, [SECOND, FOURTH], 2_100, 1_500),
        ([FIRST, SECOND], 900, [FIRST, FOURTH], 2_100, 900),
        ([FIRST, SECOND], 900, [FIRST, SECOND, FOURTH], 2_100, 900),
    ],
    ids=[
        *("behind", "ahead", "of the epoch before", "the master left first", "I left first", "replaced head"),
        *("trimmed", "the begin of a copy", "the begin of a copy of this master"),
    ],
)
def test_the_cut_is_where_the_newest_common_epoch_ends_first(
    own: list[Epoch], own_end: int, masters: list[Epoch], masters_end: int, cut: int
) -> None:
    assert common_epoch(own, own_end, masters, masters_end) == cut


@pytest.mark.parametrize(
    "own", [[], [Epoch(1, 0, 2)], [Epoch(1, 10, 1)], [Epoch(5, 3_000, 1)]], ids=["none", "id", "start", "newer"]
)
def test_logs_without_a_common_epoch_have_no_cut(own: list[Epoch]) -> None:
    assert common_epoch(own, 3_500, [FIRST, SECOND], 2_000) is None


def test_a_copy_that_was_interrupted_is_not_cut_behind_its_end() -> None:
    epochs = (Epoch(1, 0, 1), Epoch(2, 8_055, 2))
    assert common_epoch(epochs, 0, epochs, 9_000) == 0
    assert common_epoch(epochs, 500, (Epoch(1, 0, 1), Epoch(3, 300, 3)), 9_000) == 300
