"""The changes of flushes that replicas have not been sent yet."""

from __future__ import annotations

from replica.stream.kept import KeptChanges, KeptFlush


def test_flushes_are_kept_until_each_replica_was_sent_them() -> None:
    kept = KeptChanges()
    kept.add(41, 900, 1_000, b"abc")
    kept.add(42, 1_000, 1_000, b"")
    assert kept.flush(41) == KeptFlush(41, 900, 1_000, b"abc", 0)
    assert (kept.flush(40), kept.flush(43), len(kept)) == (None, None, 2)
    kept.drop_through(40)
    assert len(kept) == 2
    kept.drop_through(41)
    assert (kept.flush(41), len(kept)) == (None, 1)
    kept.drop_through(50)
    kept.add(60, 1_000, 2_000, b"")
    assert (kept.flush(60) is not None, len(kept)) == (True, 1)
    kept.clear()
    assert len(kept) == 0


def test_the_bytes_that_wait_for_a_replica_are_those_behind_the_last_flush_that_it_was_sent() -> None:
    kept = KeptChanges()
    for n in (1, 2, 3):
        kept.add(n, 0, 0, bytes(1_000))
    of_one = kept.bytes_after(2)
    assert of_one > 1_000
    assert (kept.bytes_after(3), kept.bytes_after(1), kept.bytes_after(0)) == (0, 2 * of_one, 3 * of_one)
    kept.drop_through(1)
    assert kept.bytes_after(1) == 2 * of_one
