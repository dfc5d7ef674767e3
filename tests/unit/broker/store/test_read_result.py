from __future__ import annotations

from broker.store.read_result import ReadResult, ReadStatus


def test_a_result_names_its_fields_in_the_order_in_which_the_store_builds_it() -> None:
    result = ReadResult(ReadStatus.FOUND, b"body", 1, 8, 0, 9)
    assert (result.status, result.body, result.n) == (ReadStatus.FOUND, b"body", 1)
    assert (result.next_offset, result.min_offset, result.max_offset) == (8, 0, 9)
