"""What is staged, and what a commit may name."""

from __future__ import annotations

import msgpack
import pytest

from broker.sink.stage_table import Attempt, Chunk, LastBatch, StageTable, staged_messages, unpack_chunk
from model.errors import StageLost, SystemBusy


def chunk(seq: int, offset: int, n: int = 2, staged_ms: int = 0) -> Chunk:
    return Chunk(seq, offset, ((("t", 0), n),), staged_ms)


def test_the_worked_example_of_the_header() -> None:
    table = StageTable()
    for attempt, offset in ((11, 0), (12, 2)):
        for seq in range(2):
            table.add(Attempt("q", 7, 0, attempt), chunk(seq, offset + seq))
    assert [found.offset for found in table.chunks_to_publish("q", 7, [(0, 12, 4)])] == [2, 3]
    assert len(table.drop_batch("q", 7)) == 4
    table.set_last_batch("q", LastBatch(7, 1))
    assert (len(table), table.last_batch("q"), table.last_batch("other")) == (0, 7, -1)


def test_an_attempt_that_staged_something_else_is_lost() -> None:
    table = StageTable()
    table.add(Attempt("q", 0, 0, 0), chunk(0, 0))
    for wanted in ([(0, 0, 3)], [(0, 1, 2)], [(1, 0, 2)]):
        with pytest.raises(StageLost, match="run the batch again"):
            table.chunks_to_publish("q", 0, wanted)


def test_what_is_old_goes_unless_it_is_being_published_or_still_grows() -> None:
    table = StageTable()
    table.add(Attempt("old", 0, 0, 0), chunk(0, 5, staged_ms=10))
    table.add(Attempt("busy", 0, 0, 0), chunk(0, 6, staged_ms=10))
    table.add(Attempt("grows", 0, 0, 0), chunk(0, 7, staged_ms=10))
    table.add(Attempt("grows", 0, 0, 0), chunk(1, 8, staged_ms=30))
    assert (table.oldest_ms(), table.first_offset()) == (10, 5)
    assert table.drop_older(20, frozenset({("busy", 0)})) == [(Attempt("old", 0, 0, 0), 0)]
    assert (len(table), table.first_offset()) == (3, 6)


def test_a_query_that_is_long_gone_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.sink.stage_table.MAX_SINK_QUERIES", 1)
    table = StageTable()
    table.set_last_batch("a", LastBatch(3, 10))
    table.check_room("a")
    with pytest.raises(SystemBusy):
        table.check_room("b")
    assert table.forget_expired(9) == []
    assert table.forget_expired(10) == ["a"]
    table.check_room("b")


def test_a_chunk_is_read_as_it_was_packed() -> None:
    body = msgpack.packb([["t", 1, -5, b"x"], ["u", 0, 0, b""]])
    assert staged_messages(body) == unpack_chunk(body) == (("t", 1, -5, b"x"), ("u", 0, 0, b""))


@pytest.mark.parametrize("body", [None, b"", b"\x80", b"\x91\xc0", msgpack.packb([{"t": 0, 1: 0, 2: 0, b"x": 0}])])
def test_what_is_not_a_chunk_is_refused(body: bytes | None) -> None:
    with pytest.raises((ValueError, TypeError, msgpack.UnpackException)):
        staged_messages(body)
