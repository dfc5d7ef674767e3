"""The offset table: offsets move forward unless they are reset, and stay dirty until a persist is confirmed."""

from __future__ import annotations

from client.leases.offsets_to_commit import OffsetsToCommit
from model.message_queue import MessageQueue

Q = MessageQueue("t", "a", 0)
OTHER = MessageQueue("t", "a", 1)


def test_a_queue_without_an_offset_reads_none_and_is_not_dirty() -> None:
    table = OffsetsToCommit()
    assert (table.offset_of(Q), table.dirty_offsets(), table.is_reset(Q)) == (None, {}, False)


def test_an_update_moves_forward_only() -> None:
    table = OffsetsToCommit()
    table.update(Q, 5)
    table.update(Q, 3)
    assert table.offset_of(Q) == 5
    table.update(Q, 6)
    assert table.offset_of(Q) == 6


def test_zero_is_an_offset() -> None:
    table = OffsetsToCommit()
    table.update(Q, 0)
    assert (table.offset_of(Q), table.dirty_offsets()) == (0, {Q: 0})


def test_an_offset_is_dirty_until_its_persist_is_confirmed() -> None:
    table = OffsetsToCommit()
    table.update(Q, 5)
    table.update(OTHER, 7)
    assert table.dirty_offsets() == table.dirty_offsets() == {Q: 5, OTHER: 7}
    table.confirm({Q: 5})
    assert table.dirty_offsets() == {OTHER: 7}


def test_an_offset_that_moved_on_during_the_persist_is_still_dirty() -> None:
    table = OffsetsToCommit()
    table.update(Q, 5)
    taken = table.dirty_offsets()
    table.update(Q, 8)
    table.confirm(taken)
    assert table.dirty_offsets() == {Q: 8}


def test_what_was_taken_is_not_changed_by_later_updates() -> None:
    table = OffsetsToCommit()
    table.update(Q, 5)
    taken = table.dirty_offsets()
    table.update(Q, 8)
    assert taken == {Q: 5}


def test_a_reset_may_go_back_and_is_flagged_until_it_is_confirmed() -> None:
    table = OffsetsToCommit()
    table.update(Q, 50)
    table.confirm(table.dirty_offsets())
    table.reset(Q, 10)
    assert (table.offset_of(Q), table.dirty_offsets(), table.is_reset(Q)) == (10, {Q: 10}, True)
    table.confirm({Q: 10})
    assert (table.dirty_offsets(), table.is_reset(Q)) == ({}, False)


def test_a_reset_to_where_the_broker_is_already_is_sent_all_the_same() -> None:
    table = OffsetsToCommit()
    table.update(Q, 10)
    table.confirm({Q: 10})
    table.reset(Q, 10)
    assert table.dirty_offsets() == {Q: 10}


def test_the_answer_to_a_persist_from_before_a_reset_does_not_end_its_flag() -> None:
    table = OffsetsToCommit()
    table.update(Q, 50)
    taken = table.dirty_offsets()
    table.reset(Q, 10)
    table.confirm(taken)
    assert (table.dirty_offsets(), table.is_reset(Q)) == ({Q: 10}, True)


def test_a_reset_that_moved_on_before_it_was_confirmed_needs_no_flag_any_more() -> None:
    table = OffsetsToCommit()
    table.reset(Q, 10)
    taken = table.dirty_offsets()
    table.update(Q, 12)
    table.confirm(taken)
    assert (table.dirty_offsets(), table.is_reset(Q)) == ({Q: 12}, False)


def test_a_forgotten_queue_is_gone_and_a_late_confirmation_does_not_bring_it_back() -> None:
    table = OffsetsToCommit()
    table.reset(Q, 5)
    taken = table.dirty_offsets()
    table.forget(Q)
    table.forget(Q)
    table.confirm(taken)
    assert (table.offset_of(Q), table.dirty_offsets(), table.is_reset(Q)) == (None, {}, False)
    table.update(Q, 5)
    assert table.dirty_offsets() == {Q: 5}


def test_what_the_broker_is_known_to_have_is_what_it_confirmed_last() -> None:
    table, queue = OffsetsToCommit(), MessageQueue("t", "b", 0)
    assert table.confirmed(queue) is None
    table.update(queue, 5)
    assert table.confirmed(queue) is None
    table.confirm({queue: 5})
    table.update(queue, 9)
    assert table.confirmed(queue) == 5
    table.forget(queue)
    assert table.confirmed(queue) is None


def test_resets_are_committed_apart_and_only_what_is_dirty_is() -> None:
    table, forward, back = OffsetsToCommit(), MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)
    assert table.split_dirty() == []
    table.update(forward, 5)
    assert table.split_dirty() == [(False, {forward: 5})]
    table.reset(back, 2)
    assert table.split_dirty() == [(False, {forward: 5}), (True, {back: 2})]
    table.confirm({forward: 5})
    assert table.split_dirty() == [(True, {back: 2})]
