"""The process queue against a naive twin that keeps one record per message and computes everything anew."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from client.pull.process_queue import ProcessQueue
from model.message import MessageExt
from model.message_queue import MessageQueue

QUEUE = MessageQueue("topic", "broker", 0)


@dataclass
class Twin:
    """States by offset: `new`, `out`, a retry deadline, or `done`; nothing is ever removed."""

    start: int
    states: dict[int, str | float] = field(default_factory=dict)
    reported: int = 0
    dropped: bool = False

    @property
    def pull_offset(self) -> int:
        return max([self.start, self.reported, *(offset + 1 for offset in self.states)])

    @property
    def unfinished(self) -> list[int]:
        return sorted(offset for offset, state in self.states.items() if state != "done")

    @property
    def commit_offset(self) -> int:
        return min([*self.unfinished, self.pull_offset])

    def next_batch(self, max_messages: int, now: float) -> list[int]:
        retries = sorted((state, o) for o, state in self.states.items() if isinstance(state, float) and state <= now)
        new = sorted(offset for offset, state in self.states.items() if state == "new")
        batch = [] if self.dropped else ([offset for _, offset in retries] + new)[:max_messages]
        self.states.update(dict.fromkeys(batch, "out"))
        return batch

    def next_run(self, max_messages: int) -> list[int]:
        if self.dropped or any(isinstance(state, float) for state in self.states.values()):
            return []
        run = sorted(offset for offset, state in self.states.items() if state == "new")[:max_messages]
        self.states.update(dict.fromkeys(run, "out"))
        return run

    def end_run(self, run: list[int], finished: int, dispatched: int) -> None:
        self.states.update(dict.fromkeys(run[:finished], "done"))
        self.states.update(dict.fromkeys(run[finished + dispatched :], "new"))


programs = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.integers(0, 40), unique=True, max_size=8).map(sorted)),
        st.tuples(st.just("advance"), st.integers(0, 45)),
        st.tuples(st.just("take"), st.integers(0, 6)),
        st.tuples(st.just("run"), st.tuples(st.integers(1, 6), st.integers(0, 6), st.integers(0, 3))),
        st.tuples(st.just("finish"), st.lists(st.integers(0, 40), max_size=6)),
        st.tuples(st.just("requeue"), st.lists(st.integers(0, 40), max_size=4)),
        st.tuples(st.just("sleep"), st.integers(1, 4)),
        st.tuples(st.just("drop"), st.just(None)),
    ),
    max_size=60,
)


@settings(max_examples=300)
@given(st.integers(0, 5), programs)
def test_the_process_queue_equals_its_naive_twin(start: int, program: list[tuple[str, object]]) -> None:
    process_queue, twin, now, pace = ProcessQueue(start), Twin(start), 0.0, 0
    handed_out: dict[int, MessageExt] = {}
    for verb, value in program:
        committed = process_queue.commit_offset
        if verb == "put":
            assert isinstance(value, list)
            process_queue.put(
                [MessageExt(QUEUE, offset, 0, 0, "topic", bytes(offset + 1), "", (), {}, 0, "") for offset in value]
            )
            pull_offset = twin.pull_offset
            twin.states.update({offset: "new" for offset in value if offset >= pull_offset})
        elif verb == "advance":
            assert isinstance(value, int)
            process_queue.advance(value)
            twin.reported = max(twin.reported, value)
        elif verb == "take":
            assert isinstance(value, int)
            batch = process_queue.next_batch(value, now)
            handed_out.update({message.offset: message for message in batch})
            assert [message.offset for message in batch] == twin.next_batch(value, now)
        elif verb == "run":
            assert isinstance(value, tuple)
            most, finished, dispatched = value
            run = process_queue.next_run(most)
            offsets = [message.offset for message in run]
            assert offsets == twin.next_run(most)
            if run:
                check_same(process_queue, twin, now)
                assert process_queue.commit_offset >= committed
                handed_out.update({message.offset: message for message in run[: finished + dispatched]})
                process_queue.end_run(finished, dispatched)
                twin.end_run(offsets, finished, dispatched)
        elif verb == "finish":
            assert isinstance(value, list)
            known = [offset for offset in value if offset in handed_out]
            process_queue.finish([handed_out[offset] for offset in known])
            twin.states.update(dict.fromkeys(known, "done"))
        elif verb == "requeue":
            assert isinstance(value, list)
            pace = (pace + 1) % 3
            process_queue.requeue([handed_out[offset] for offset in value if offset in handed_out], now + pace)
            twin.states.update({offset: now + pace for offset in value if twin.states.get(offset) == "out"})
        elif verb == "sleep":
            assert isinstance(value, int)
            now += value
        else:
            process_queue.drop()
            twin.dropped = True
        assert process_queue.commit_offset >= committed
        check_same(process_queue, twin, now)


def check_same(process_queue: ProcessQueue, twin: Twin, now: float) -> None:
    """Everything that can be asked of the queue has the answer of the twin."""
    unfinished = twin.unfinished
    oldest = process_queue.oldest()
    deadlines = [state for state in twin.states.values() if isinstance(state, float)]
    assert process_queue.pull_offset == twin.pull_offset
    assert process_queue.commit_offset == twin.commit_offset
    assert process_queue.count == len(unfinished)
    assert process_queue.size_bytes == sum(offset + 1 for offset in unfinished)
    assert process_queue.span == (max(twin.states) - unfinished[0] if unfinished else 0)
    assert (oldest.offset if oldest else None) == (unfinished[0] if unfinished else None)
    assert process_queue.dispatched == sum(state == "out" for state in twin.states.values())
    assert process_queue.next_retry_deadline() == (None if twin.dropped else min(deadlines, default=None))
    assert process_queue.ready(now) == (
        not twin.dropped
        and any(state == "new" or (isinstance(state, float) and state <= now) for state in twin.states.values())
    )
