from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.store.queue_state import RECORD_OVERHEAD_BYTES, HiddenFlushes, QueueState, TailCache, read_tail
from broker.store.segments.index import IndexRow
from model.record import encode_record


def queue_with_tail(first: int, count: int) -> QueueState:
    queue = QueueState((1, 0), 0, first, IndexRow(first, bytearray()))
    queue.tail = [b"%d" % offset for offset in range(first, first + count)]
    queue.next_offset = queue.flushed_offset = first + count
    return queue


def test_dropping_the_tail_keeps_the_rest_at_its_offsets() -> None:
    queue = queue_with_tail(10, 5)
    queue.drop_tail_before(13)
    assert (queue.tail_base, queue.tail) == (13, [b"13", b"14"])
    queue.drop_tail_before(15)
    assert (queue.tail_base, queue.tail) == (15, [])


def test_dropping_what_is_gone_already_changes_nothing() -> None:
    queue = queue_with_tail(10, 2)
    queue.drop_tail_before(4)
    assert (queue.tail_base, queue.tail) == (10, [b"10", b"11"])


def new_queue(queue_id: int) -> QueueState:
    return QueueState((1, queue_id), 0, 0, IndexRow(0, bytearray()))


def add(queue: QueueState, record: bytes) -> None:
    queue.tail.append(record)
    queue.next_offset += 1
    queue.end_offset += 1
    queue.flushed_offset += 1


@given(
    st.integers(0, 3_000),
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 100)), min_size=1, max_size=4), max_size=40),
)
def test_the_tail_is_the_newest_records_and_within_the_budget(
    budget: int, batches: list[list[tuple[int, int]]]
) -> None:
    queues = [new_queue(number) for number in range(3)]
    cache = TailCache(budget)
    order: list[tuple[int, int]] = []
    for batch in batches:
        for number, size in batch:
            add(queues[number], bytes(size))
            order.append((number, size + RECORD_OVERHEAD_BYTES))
        touched = list(dict.fromkeys(number for number, _ in batch))
        cache.added([queues[number] for number in touched], sum(size for _, size in batch), len(batch))
        kept = sum(len(queue.tail) for queue in queues)
        # First in, first out over all queues: what is kept is a suffix of everything added.
        expected = order[len(order) - kept :]
        for number, queue in enumerate(queues):
            assert len(queue.tail) == sum(other == number for other, _ in expected)
            assert queue.tail_base + len(queue.tail) == queue.end_offset
        assert cache.bytes == sum(size for _, size in expected)
        assert cache.bytes <= budget * 33 / 32 + 1
    if budget == 3_000:
        assert sum(size for _, size in order) < 2_000 or any(queue.tail for queue in queues)


def test_a_large_budget_keeps_everything() -> None:
    queue = new_queue(0)
    cache = TailCache(1_000_000)
    for _ in range(100):
        add(queue, bytes(100))
        cache.added([queue], 100, 1)
    assert len(queue.tail) == 100


def tagged(count: int) -> QueueState:
    queue = new_queue(0)
    for offset in range(count):
        add(queue, encode_record(1, 0, offset, 0, offset % 3 - 1, 0, 0, b""))
    return queue


def test_reading_the_tail_filters_and_says_where_to_go_on() -> None:
    queue = tagged(10)
    wanted = frozenset({-1})
    body, n, next_offset = read_tail(queue, 1, max_n=2, max_bytes=1000, scan_records=100, tag_hashes=wanted)
    assert (body, n, next_offset) == (queue.tail[3] + queue.tail[6], 2, 7)
    body, n, next_offset = read_tail(queue, 1, max_n=2, max_bytes=1000, scan_records=2, tag_hashes=wanted)
    assert (body, n, next_offset) == (b"", 0, 3)


def test_reading_the_tail_stops_before_the_record_that_is_too_much_but_gives_the_first() -> None:
    queue = tagged(3)
    assert read_tail(queue, 0, max_n=9, max_bytes=80, scan_records=9, tag_hashes=None)[1:] == (2, 2)
    assert read_tail(queue, 0, max_n=9, max_bytes=1, scan_records=9, tag_hashes=None)[1:] == (1, 1)


def test_records_that_are_not_flushed_are_not_read() -> None:
    queue = tagged(3)
    queue.tail.append(b"not flushed")
    assert read_tail(queue, 0, max_n=9, max_bytes=1000, scan_records=9, tag_hashes=None)[1:] == (3, 3)


# --- held back -------------------------------------------------------------------------------------------------------
@given(
    st.lists(
        st.one_of(st.lists(st.integers(0, 2), max_size=4), st.integers(0, 200)),  # a flush to these queues, or a show
        max_size=30,
    )
)
def test_readers_see_what_was_flushed_up_to_the_highest_position_shown(steps: list[list[int] | int]) -> None:
    queues = [queue_with_tail(0, 0) for _ in range(3)]
    held, position, shown = HiddenFlushes(0), 0, 0
    flushes: list[tuple[int, list[int]]] = []
    for step in steps:
        if isinstance(step, list):
            position += 10
            for number in step:
                queues[number].next_offset += 1
            held.add(position, [queues[number] for number in dict.fromkeys(step)])
            flushes.append((position, step))
        else:
            before = [each.end_offset for each in queues]
            to_position = min(step, position)
            grown = held.show(to_position)
            shown = max(shown, to_position)
            assert {each for each, end in zip(queues, before, strict=True) if each.end_offset != end} == set(grown)
        for number, each in enumerate(queues):
            ends = sum(to.count(number) for at, to in flushes if at <= shown)
            assert each.end_offset == ends
            assert each.flushed_offset == each.next_offset
        assert held.shown_position == shown
