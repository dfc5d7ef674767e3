"""The message store against the obvious: lists in memory."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.store.disk.errors import StoreFull
from broker.store.disk.options import StoreOptions
from broker.store.ends import FILE_NAME
from broker.store.message_store import MessageStore
from broker.store.read_result import ReadStatus
from model.record import StoredRecord, iter_records
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.store_helpers import read_all

Key = tuple[int, int]
NO_LIMIT = 2**40


@dataclass
class ModelQueue:
    """A queue as anybody would write it: a list. `ends[i]` is the log position after record i."""

    min_offset: int = 0
    records: list[StoredRecord] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


class StoreAgainstLists(RuleBasedStateMachine):
    """Any interleaving of what a broker does to its store, and of what a crash does, against lists in memory."""

    @initialize(
        segment_bytes=st.sampled_from([100, 400, 5_000]),
        segment_records=st.sampled_from([3, 500]),
        tail_bytes=st.sampled_from([0, 300, 2_000, 10**6]),
        index_cache_bytes=st.sampled_from([0, 1_000, 10**6]),
        scan_records=st.sampled_from([2, 4_096]),
        open_files=st.sampled_from([1, 3, 32]),
    )
    def begin(
        self,
        segment_bytes: int,
        segment_records: int,
        tail_bytes: int,
        index_cache_bytes: int,
        scan_records: int,
        open_files: int,
    ) -> None:
        self.options = StoreOptions(
            segment_bytes=segment_bytes,
            segment_records=segment_records,
            tail_bytes=tail_bytes,
            index_cache_bytes=index_cache_bytes,
            scan_records=scan_records,
            open_files=open_files,
        )
        self.root = Path(tempfile.mkdtemp())
        self.generation = 0
        self.now_ms = 1_000
        self.stored_ms = 0
        self.files = FaultyFiles()
        self.queues: dict[Key, ModelQueue] = {}
        self.pending: list[tuple[Key, StoredRecord]] = []
        self.dropped: dict[int, int] = {}
        self.topics = [1, 2]
        self.open()
        self.catch_up()

    def open(self) -> None:
        self.now_ms = max(self.now_ms, self.stored_ms)
        self.store = MessageStore.open(self.directory, self.options, lambda: self.now_ms, self.files)

    def catch_up(self) -> None:
        # How old the newest record is depends on what was trimmed, cut off or never flushed; now it is known again.
        self.append_a_batch(topic=0, payloads=[b"first"])
        self.flush()

    @property
    def directory(self) -> Path:
        return self.root / f"store{self.generation}"

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.root)

    # --- what a broker does

    @rule(milliseconds=st.integers(-50, 100))
    def let_time_pass(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    @rule(
        topic=st.integers(0, 1),
        queue_id=st.integers(0, 2),
        payloads=st.lists(st.binary(max_size=60), min_size=1, max_size=4),
        tag=st.integers(-2, 2),
        flags=st.sampled_from([0, 1, 0x7FFF]),
        times=st.sampled_from([0, 3]),
    )
    def append(self, topic: int, queue_id: int, payloads: list[bytes], tag: int, flags: int, times: int) -> None:
        key = (self.topics[topic], queue_id)
        for payload in payloads:
            if not self.pending:
                self.stored_ms = max(self.stored_ms, self.now_ms)
            stored = len(self.queues[key].records) if key in self.queues else 0
            offset = stored + sum(other == key for other, _ in self.pending)
            assert self.store.append(*key, payload, tag, flags=flags, times_delivered=times) == offset
            self.pending.append((key, StoredRecord(offset, self.stored_ms, tag, flags, times, payload)))

    @rule(topic=st.integers(0, 1), payloads=st.lists(st.binary(max_size=20), min_size=1, max_size=3))
    def append_a_batch(self, topic: int, payloads: list[bytes]) -> None:
        key = (self.topics[topic], 0)
        if not self.pending:
            self.stored_ms = max(self.stored_ms, self.now_ms)
        stored = len(self.queues[key].records) if key in self.queues else 0
        first = stored + sum(other == key for other, _ in self.pending)
        assert self.store.append_batch(*key, [(payload, 7) for payload in payloads]) == first
        for offset, payload in enumerate(payloads, first):
            self.pending.append((key, StoredRecord(offset, self.stored_ms, 7, 0, 0, payload)))

    @rule()
    def flush(self) -> None:
        before = self.store.written_position
        self.store.flush()
        position = before
        for key, record in self.pending:
            queue = self.queues.setdefault(key, ModelQueue())
            position += 40 + len(record.payload)
            queue.records.append(record)
            queue.ends.append(position)
        self.pending.clear()
        assert self.store.written_position >= position

    @precondition(lambda self: self.pending)
    @rule(room=st.integers(0, 39))
    def flush_to_a_full_disk(self, room: int) -> None:
        self.files.room = room
        with pytest.raises(StoreFull):
            self.store.flush()
        self.files.room = None
        self.pending.clear()

    @rule()
    def sync(self) -> None:
        self.store.sync()
        assert self.store.synced_position == self.store.written_position

    @rule(topic=st.integers(0, 1))
    def drop_a_topic(self, topic: int) -> None:
        self.flush()
        topic_id = self.topics[topic]
        exists = any(key[0] == topic_id for key in self.queues)
        self.store.drop_topic(topic_id)
        assert not any(key[0] == topic_id for key in self.store.queues())
        before = self.store.written_position
        self.store.flush()
        if exists:
            self.dropped[topic_id] = before + 40
            self.stored_ms = max(self.stored_ms, self.now_ms)
        self.topics[topic] = max(self.topics) + 1

    @rule(fraction=st.floats(0, 1))
    def trim(self, fraction: float) -> None:
        statistics = self.store.statistics()
        span = statistics.written_position - statistics.min_position
        self.store.trim(statistics.min_position + int(span * fraction))
        kept_from = self.store.statistics().min_position
        assert kept_from <= statistics.min_position + span * fraction
        for queue in self.queues.values():
            queue.min_offset = max(queue.min_offset, sum(end <= kept_from for end in queue.ends))

    # --- what happens to it

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.pending.clear()
        self.open()
        assert self.store.recovery.scanned_records == 0
        assert self.store.damage.report() == ()
        self.catch_up()

    @rule(fraction=st.floats(0, 1))
    def crash(self, fraction: float) -> None:
        """The machine loses power: of what was not synced, a part is there."""
        synced, written = self.store.synced_position, self.store.written_position
        cut = synced + int((written - synced) * fraction)
        survivor = self.root / f"store{self.generation + 1}"
        shutil.copytree(self.directory, survivor)
        self.store.close()
        self.generation += 1
        for path in sorted(survivor.glob("*.log")):
            base = int(path.stem)
            if base >= cut and base > 0:
                path.unlink()
            elif base + path.stat().st_size > cut:
                with path.open("r+b") as file:
                    file.truncate(cut - base)
        (survivor / FILE_NAME).unlink()  # it was not synced either; with it, the loss would be told
        for queue in self.queues.values():
            kept = sum(end <= cut for end in queue.ends)
            del queue.records[kept:], queue.ends[kept:]
        self.queues = {key: queue for key, queue in self.queues.items() if queue.records}
        for topic_id, position in list(self.dropped.items()):
            if position > cut:
                # The drop was lost with the rest; a broker drops again what is not in its table of topics.
                del self.dropped[topic_id]
                self.queues = {key: queue for key, queue in self.queues.items() if key[0] != topic_id}
        self.pending.clear()
        self.open()
        for topic_id in {key[0] for key in self.store.queues()} - {key[0] for key in self.live_queues()}:
            self.store.drop_topic(topic_id)
        self.store.flush()
        assert self.store.damage.report() == ()
        self.catch_up()

    # --- what must hold

    def live_queues(self) -> dict[Key, ModelQueue]:
        return {key: queue for key, queue in self.queues.items() if key[0] not in self.dropped}

    @rule(step=st.integers(1, 5))
    def every_message_is_there(self, step: int) -> None:
        for key, queue in self.live_queues().items():
            expected = {record.queue_offset: record for record in queue.records[queue.min_offset :]}
            assert read_all(self.store, key, step) == expected

    @rule(
        topic=st.integers(0, 1),
        queue_id=st.integers(0, 2),
        offset=st.integers(-1, 30),
        max_n=st.integers(1, 6),
        max_bytes=st.sampled_from([1, 100, 250, NO_LIMIT]),
        tags=st.none() | st.frozensets(st.integers(-2, 2), max_size=2),
    )
    def read(
        self, topic: int, queue_id: int, offset: int, max_n: int, max_bytes: int, tags: frozenset[int] | None
    ) -> None:
        key = (self.topics[topic], queue_id)
        queue = self.queues.get(key, ModelQueue())
        result = self.store.read(*key, offset, max_n=max_n, max_bytes=max_bytes, tag_hashes=tags)
        end = len(queue.records)
        assert (result.min_offset, result.max_offset) == (queue.min_offset, end)
        if offset < queue.min_offset:
            assert (result.status, result.next_offset) == (ReadStatus.OFFSET_TOO_SMALL, queue.min_offset)
        elif offset > end:
            assert (result.status, result.next_offset) == (ReadStatus.OFFSET_TOO_BIG, end)
        elif offset == end:
            assert (result.status, result.next_offset) == (ReadStatus.NO_NEW, end)
        else:
            assert result.next_offset > offset
            looked_at = queue.records[offset : result.next_offset]
            matching = [record for record in looked_at if tags is None or record.tag_hash in tags]
            assert list(iter_records(result.body)) == matching
            assert result.status is (ReadStatus.FOUND if matching else ReadStatus.NO_MATCH)
            assert result.n == len(matching) <= max_n
            assert len(result.body) <= max_bytes or result.n == 1

    @rule(topic=st.integers(0, 1), queue_id=st.integers(0, 2), timestamp_ms=st.integers(0, 3_000))
    def offset_at(self, topic: int, queue_id: int, timestamp_ms: int) -> None:
        key = (self.topics[topic], queue_id)
        queue = self.queues.get(key, ModelQueue())
        kept = queue.records[queue.min_offset :]
        expected = next(
            (record.queue_offset for record in kept if record.stored_ms >= timestamp_ms), len(queue.records)
        )
        assert self.store.offset_at(*key, timestamp_ms) == expected

    @invariant()
    def the_table_of_queues_agrees(self) -> None:
        if not hasattr(self, "store"):
            return
        live = self.live_queues()
        assert [key for key in self.store.queues() if self.store.max_offset(*key)] == sorted(live)
        for key, queue in live.items():
            assert self.store.min_offset(*key) == queue.min_offset
            assert self.store.max_offset(*key) == len(queue.records)

    @invariant()
    def memory_is_within_the_budget(self) -> None:
        if hasattr(self, "store"):
            assert self.store.statistics().tail_bytes <= self.options.tail_bytes * 33 / 32 + 1


TestStoreAgainstLists = StoreAgainstLists.TestCase
TestStoreAgainstLists.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
