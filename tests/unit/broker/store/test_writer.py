from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

from broker.store.disk.errors import StoreFull, StoreWriteFailed
from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from broker.store.segments.scan import MAX_RECORD_BYTES
from model.record import CONTROL_FLAG, HEADER_BYTES, SINK_FLAG, iter_records
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.store_helpers import fill, offsets, open_store


def test_what_is_appended_is_visible_after_the_flush_and_not_before(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        assert [store.append(1, 0, b"a", 0), store.append(1, 1, b"b", 0), store.append(1, 0, b"c", 0)] == [0, 0, 1]
        assert store.max_offset(1, 0) == 0
        assert offsets(store) == []
        store.flush()
        assert (store.max_offset(1, 0), store.max_offset(1, 1)) == (2, 1)
        assert offsets(store) == [0, 1]


def test_a_batch_is_one_write_and_one_for_the_ends_of_its_queues(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files) as store:
        before = files.calls["pwrite"]
        for number in range(64):
            store.append(1, number % 16, b"x", 0)
        store.flush()
        assert files.calls["pwrite"] == before + 2
        store.flush()
        assert files.calls["pwrite"] == before + 2


def test_a_batch_for_one_queue_gets_consecutive_offsets(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        assert store.append_batch(1, 0, [(b"a", 1), (b"b", 2)]) == 0
        assert store.append_batch(1, 0, []) == 2
        assert store.append_batch(1, 0, [(b"c", 3)], flags=SINK_FLAG) == 2
        with pytest.raises(ValueError, match="flags"):
            store.append_batch(1, 0, [(b"d", 4)], flags=CONTROL_FLAG)
        store.flush()
        body = store.read(1, 0, 0, max_n=9, max_bytes=2**20).body
        found = [(record.payload, record.tag_hash, record.flags) for record in iter_records(body)]
        assert found == [(b"a", 1, 0), (b"b", 2, 0), (b"c", 3, SINK_FLAG)]


def test_a_batch_with_a_message_that_is_too_long_is_not_buffered_at_all(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, 1)
        with pytest.raises(ValueError, match=re.escape(f"{MAX_RECORD_BYTES + 1} bytes")):
            store.append_batch(1, 0, [(b"first", 0), (bytes(MAX_RECORD_BYTES - HEADER_BYTES + 1), 0)])
        store.flush()
        assert store.append_batch(1, 0, [(b"kept", 0)]) == 1
        store.flush()
        assert offsets(store) == [0, 1]


@pytest.mark.parametrize("room", [0, 1, 47, 100])
def test_a_full_disk_stores_nothing_of_the_batch_and_frees_its_offsets(tmp_path: Path, room: int) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files) as store:
        fill(store, 2)
        position = store.written_position
        files.room = room
        for _ in range(3):
            store.append(1, 0, b"lost", 0)
            store.append(5, 5, b"lost", 0)
        with pytest.raises(StoreFull, match=r"No space left.*nothing of this batch is stored; free space"):
            store.flush()
        assert store.written_position == position
        assert store.queues() == [(1, 0)]
        assert offsets(store) == [0, 1]
        files.room = None
        assert store.append(1, 0, b"kept", 0) == 2
        assert store.append(5, 5, b"kept", 0) == 0
        store.flush()
        assert offsets(store) == [0, 1, 2]
        assert store.read(1, 0, 2, max_n=9, max_bytes=1000).body.endswith(b"kept")
    with open_store(tmp_path) as store:
        assert offsets(store) == [0, 1, 2]
        assert store.read(1, 0, 2, max_n=9, max_bytes=1000).body.endswith(b"kept")
        assert store.read(5, 5, 0, max_n=9, max_bytes=1000).body.endswith(b"kept")


def test_an_io_error_is_another_kind_than_a_full_disk(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files) as store:
        files.failing["pwrite"] = errno.EIO
        store.append(1, 0, b"lost", 0)
        with pytest.raises(StoreWriteFailed, match=r"Input/output.*nothing of this batch is stored; check the disk"):
            store.flush()
        files.failing.clear()
        fill(store, 1)
        assert offsets(store) == [0]


def test_a_batch_can_be_discarded_as_if_its_flush_had_failed(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, 2)
        store.discard()
        store.append(1, 0, b"lost", 0)
        store.append(2, 0, b"lost", 0)
        store.drop_topic(1)
        store.discard()
        store.flush()
        assert store.queues() == [(1, 0)]
        assert store.append(1, 0, b"kept", 0) == 2
        store.flush()
        assert store.read(1, 0, 2, max_n=9, max_bytes=1000).body.endswith(b"kept")


def test_reads_go_on_while_the_disk_is_full(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files, tail_bytes=0) as store:
        fill(store, 3)
        files.room = 0
        store.append(1, 0, b"lost", 0)
        with pytest.raises(StoreFull):
            store.flush()
        assert offsets(store) == [0, 1, 2]
        files.room = None


def test_what_cannot_be_stored_is_refused_and_the_batch_goes_on(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for topic_id, queue_id in ((-1, 0), (2**32, 0), (0, -1), (0, 2**32)):
            with pytest.raises(ValueError, match="does not fit 32 bits"):
                store.append(topic_id, queue_id, b"", 0)
        with pytest.raises(ValueError, match="flags 0x8000"):
            store.append(1, 0, b"", 0, flags=CONTROL_FLAG)
        with pytest.raises(ValueError, match=re.escape(f"{MAX_RECORD_BYTES + 1} bytes")):
            store.append(1, 0, bytes(MAX_RECORD_BYTES - HEADER_BYTES + 1), 0)
        assert store.append(1, 0, bytes(MAX_RECORD_BYTES - HEADER_BYTES), 0, flags=CONTROL_FLAG - 1) == 0
        store.flush()
        assert offsets(store) == [0]


def test_a_segment_is_finished_by_size_by_count_and_by_age(tmp_path: Path) -> None:
    with open_store(tmp_path / "size", segment_bytes=200) as store:
        fill(store, 9)
        assert store.statistics().segments == 3
    with open_store(tmp_path / "count", segment_records=4) as store:
        fill(store, 9)
        assert store.statistics().segments == 3
    with open_store(tmp_path / "age", segment_age_ms=3) as store:  # the clock ticks at each flush
        fill(store, 9)
        assert store.statistics().segments == 3


def test_a_segment_that_cannot_be_begun_does_not_fail_the_batch(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files, segment_bytes=100) as store:
        files.failing["rename"] = errno.EIO
        fill(store, 10)
        assert store.statistics().segments == 1
        files.failing.clear()
        fill(store, 1)
        assert store.statistics().segments == 2
        assert offsets(store) == list(range(11))
    with open_store(tmp_path) as store:
        assert offsets(store) == list(range(11))


def test_indexes_do_not_pile_up_in_memory_when_no_one_syncs(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=100) as store:
        fill(store, 50)
        statistics = store.statistics()
        assert statistics.segments > 10
        assert statistics.unfinished_segments <= 5


def test_a_dropped_topic_is_gone_and_stays_gone(tmp_path: Path) -> None:
    with open_store(tmp_path, segment_bytes=400) as store:
        fill(store, 20, queues=2)
        store.append(2, 0, b"other", 0)
        store.drop_topic(1)
        store.drop_topic(99)
        store.flush()
        assert store.queues() == [(2, 0)]
        assert (store.max_offset(1, 0), offsets(store)) == (0, [])
    with open_store(tmp_path) as store:
        assert store.queues() == [(2, 0)]


def test_a_drop_that_cannot_be_written_is_taken_back(tmp_path: Path) -> None:
    files = FaultyFiles()
    with open_store(tmp_path, files, segment_bytes=400) as store:
        fill(store, 20, queues=2)
        files.room = 0
        store.append(1, 0, b"lost", 0)
        store.drop_topic(1)
        with pytest.raises(StoreFull):
            store.flush()
        files.room = None
        assert store.queues() == [(1, 0), (1, 1)]
        fill(store, 2, queues=2)
        assert offsets(store, 1, 1) == list(range(11))
    with open_store(tmp_path) as store:
        assert offsets(store, 1, 0) == list(range(11))


def test_stored_times_never_decrease_although_the_clock_does(tmp_path: Path) -> None:
    clock = iter([100, 100, 105, 90, 95, 110, 120, 120])
    with MessageStore.open(tmp_path, StoreOptions(), lambda: next(clock)) as store:
        fill(store, 5)
        body = store.read(1, 0, 0, max_n=9, max_bytes=2**20).body
        assert [record.stored_ms for record in iter_records(body)] == [100, 105, 105, 105, 110]
