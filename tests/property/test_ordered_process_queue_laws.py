"""The ordered process queue against a naive twin that looks at every message again for every question."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from client.pull.ordered_process_queue import OrderedProcessQueue, by_key, whole_queue
from model.message import MessageExt
from model.message_queue import MessageQueue

QUEUE = MessageQueue("topic", "broker", 0)
KEYS = ["", "a", "b", "c"]


def message(offset: int, key: str) -> MessageExt:
    return MessageExt(QUEUE, offset, 0, 0, "topic", b"xy", "", [key] if key else [], {}, 0, str(offset))


@dataclass
class Twin:
    """offset -> [lane, state, times]; states are `new`, `out`, `held` or `done`. lane -> not before."""

    by_key: bool
    now: float = 0.0
    messages: dict[int, list[Any]] = field(default_factory=dict)
    suspended: dict[object, float] = field(default_factory=dict)
    dropped: bool = False

    def lane(self, offset: int, key: str) -> object:
        return (key or offset) if self.by_key else ""

    def in_state(self, state: str) -> list[int]:
        return sorted(o for o, (_, s, _) in self.messages.items() if s == state)

    @property
    def commit_offset(self) -> int:
        unfinished = [o for o, (_, s, _) in self.messages.items() if s != "done"]
        return min(unfinished, default=max(self.messages, default=-1) + 1)

    def ready_lanes(self) -> set[object]:
        busy = {self.messages[o][0] for o in self.in_state("out")}
        resting = {lane for lane, until in self.suspended.items() if until > self.now}
        return set() if self.dropped else {self.messages[o][0] for o in self.in_state("new")} - busy - resting

    def may_be(self, batch: list[int], max_messages: int) -> bool:
        """Whether a batch is the head of a lane that may go on, as long as it may be."""
        lane = self.messages[batch[0]][0]
        head = [o for o in self.in_state("new") if self.messages[o][0] == lane][:max_messages]
        return lane in self.ready_lanes() and batch == head


programs = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.sampled_from(KEYS), min_size=1, max_size=6)),
        st.tuples(st.just("take"), st.integers(1, 4)),
        st.tuples(st.just("run"), st.tuples(st.integers(1, 6), st.integers(0, 6), st.integers(0, 3))),
        st.tuples(st.sampled_from(["finish", "requeue", "hold", "finish_held", "roll_back"]), st.integers(0, 30)),
        st.tuples(st.just("sleep"), st.integers(1, 4)),
        st.tuples(st.just("drop"), st.just(0)),
    ),
    max_size=60,
)


class Run:
    def __init__(self, *, keyed: bool) -> None:
        self.queue = OrderedProcessQueue(0, by_key if keyed else whole_queue)
        self.twin = Twin(keyed)
        self.known: dict[int, MessageExt] = {}
        self.batches: list[list[MessageExt]] = []
        self.in_lanes = False
        """Whether a batch was dispatched since the queue was last empty."""

    def put(self, keys: list[str]) -> None:
        first = self.queue.pull_offset
        messages = [message(first + n, key) for n, key in enumerate(keys)]
        self.queue.put(messages)
        for each, key in zip(messages, keys, strict=True):
            self.twin.messages[each.offset] = [self.twin.lane(each.offset, key), "new", 0]
            self.known[each.offset] = each

    def take(self, n: int) -> None:
        batch = self.queue.next_batch(n, self.twin.now)
        assert bool(batch) == bool(self.twin.ready_lanes())
        if batch:
            assert self.twin.may_be([each.offset for each in batch], n)
            assert [each.times_delivered for each in batch] == [self.twin.messages[e.offset][2] for e in batch]
            for each in batch:
                self.twin.messages[each.offset][1] = "out"
            self.batches.append(batch)
            self.in_lanes = True

    def run(self, sizes: tuple[int, int, int]) -> None:
        most, finished, dispatched = sizes
        new = self.twin.in_state("new")
        assert self.queue.can_run() or not new or self.twin.dropped or self.in_lanes
        run = self.queue.next_run(most)
        offsets = [each.offset for each in run]
        if not run:
            return
        assert offsets == new[:most]
        assert self.queue.commit_offset == offsets[0], "a run begins when all before it is finished"
        batch = run[finished : finished + (min(dispatched, 1) if self.twin.by_key else dispatched)]
        self.queue.end_run(finished, len(batch))
        for offset in offsets[:finished]:
            self.twin.messages[offset][1] = "done"
        for each in batch:
            self.twin.messages[each.offset][1] = "out"
        if batch:
            self.batches.append(batch)
            self.in_lanes = True

    def _some_batch(self, n: int) -> list[MessageExt]:
        return self.batches[n % len(self.batches)] if self.batches else []

    def finish(self, n: int) -> None:
        batch = self._some_batch(n)
        for each in batch:
            if self.twin.messages[each.offset][1] in ("out", "held"):
                self.twin.messages[each.offset][1] = "done"
        assert self.queue.finish(batch) == self.twin.commit_offset

    def requeue(self, n: int) -> None:
        batch = self._some_batch(n)
        for each in batch:
            entry = self.twin.messages[each.offset]
            if entry[1] == "out":
                entry[1], entry[2] = "new", each.times_delivered + 1
                self.twin.suspended[entry[0]] = max(self.twin.now + 2, self.twin.suspended.get(entry[0], 0))
        self.queue.requeue(batch, self.twin.now + 2)

    def hold(self, n: int) -> None:
        batch = self._some_batch(n)
        for each in batch:
            if self.twin.messages[each.offset][1] == "out":
                self.twin.messages[each.offset][1] = "held"
        self.queue.hold(batch)

    def _held(self, batch: list[MessageExt]) -> list[int]:
        lane = self.twin.messages[batch[0].offset][0]
        return [o for o in self.twin.in_state("held") if self.twin.messages[o][0] == lane]

    def finish_held(self, n: int) -> None:
        batch = self._some_batch(n)
        if batch:
            for offset in self._held(batch):
                self.twin.messages[offset][1] = "done"
            assert self.queue.finish_held(batch[0]) == self.twin.commit_offset

    def roll_back(self, n: int) -> None:
        batch = self._some_batch(n)
        if batch:
            lane = self.twin.messages[batch[0].offset][0]
            for offset in self._held(batch):
                self.twin.messages[offset][1] = "new"
                self.twin.suspended[lane] = max(self.twin.now + 1, self.twin.suspended.get(lane, 0))
            self.queue.roll_back(batch[0], self.twin.now + 1)

    def sleep(self, n: int) -> None:
        self.twin.now += n

    def drop(self, n: int) -> None:
        self.twin.dropped = True
        self.queue.drop()


@settings(max_examples=300)
@given(keyed=st.booleans(), program=programs)
def test_every_lane_is_in_order_and_one_batch_at_a_time_and_the_commit_point_is_the_smallest_unfinished(
    keyed: bool, program: list[tuple[str, object]]
) -> None:
    run = Run(keyed=keyed)
    for step, argument in program:
        getattr(run, step)(argument)
        twin, queue = run.twin, run.queue
        assert queue.commit_offset == twin.commit_offset
        assert queue.ready(twin.now) == bool(twin.ready_lanes())
        assert queue.dispatched == len(twin.in_state("out"))
        unfinished = len(twin.messages) - len(twin.in_state("done"))
        assert (queue.count, queue.size_bytes) == (unfinished, unfinished * 2)
        run.in_lanes = run.in_lanes and unfinished > 0
        oldest = queue.oldest()
        assert (oldest.offset if oldest else None) == (twin.commit_offset if unfinished else None)
        if not twin.dropped:
            deadlines = [until for until in twin.suspended.values() if until > twin.now]
            waiting = queue.next_retry_deadline()
            assert (min(deadlines) if deadlines else None) == (waiting if waiting and waiting > twin.now else None)


def test_a_lane_that_is_put_back_twice_waits_for_the_later_time() -> None:
    run = Run(keyed=False)
    run.put(["a"] * 3)
    run.take(1)
    run.hold(0)
    run.take(1)
    run.roll_back(0)
    run.requeue(1)
    run.sleep(1)
    assert not run.queue.ready(run.twin.now)
    run.sleep(1)
    run.take(3)
    assert [each.offset for each in run.batches[-1]] == [0, 1, 2]


@settings(max_examples=100)
@given(keys=st.lists(st.sampled_from(KEYS[1:]), min_size=1, max_size=30), keyed=st.booleans())
def test_whatever_fails_once_comes_out_in_the_order_of_its_lane(keys: list[str], keyed: bool) -> None:
    queue = OrderedProcessQueue(0, by_key if keyed else whole_queue)
    queue.put([message(n, key) for n, key in enumerate(keys)])
    seen: list[MessageExt] = []
    now = 0.0
    while queue.count:
        batch = queue.next_batch(2, now)
        if not batch:
            deadline = queue.next_retry_deadline()
            assert deadline is not None, "nothing is with a listener, so something must become ready by itself"
            now = deadline
        elif batch[0].times_delivered == 0:
            queue.requeue(batch, now + 1)
        else:
            seen += batch
            queue.finish(batch)
    for key in set(keys):
        offsets = [each.offset for each in seen if each.keys == [key]]
        assert offsets == sorted(offsets)
        assert len(offsets) == keys.count(key)
    if not keyed:
        assert [each.offset for each in seen] == list(range(len(keys)))
