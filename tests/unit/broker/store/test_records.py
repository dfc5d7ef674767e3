from __future__ import annotations

from pathlib import Path

import pytest

from broker.store import records
from broker.store.records import records_from
from tests.unit.broker.store.store_helpers import fill, open_store


@pytest.mark.parametrize("at_once", [1, 7, 4_096])
def test_all_records_of_a_queue_are_read_from_an_offset_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(records, "_AT_ONCE", at_once)
    with open_store(tmp_path, segment_bytes=2_000, tail_bytes=0) as store:
        fill(store, 100, queues=2)
        assert [record.queue_offset for record in records_from(store, 1, 1, 3)] == list(range(3, 50))
        assert [len(list(records_from(store, 1, queue, start))) for queue, start in ((0, 50), (0, 99), (2, 0))] == [
            0
        ] * 3


def test_what_was_deleted_is_passed_over(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=2_000) as store:
        fill(store, 100)
        store.sync()
        store.trim(store.spans()[0].end_position)
        first = store.min_offset(1, 0)
        assert 0 < first == next(records_from(store, 1, 0, 0)).queue_offset
