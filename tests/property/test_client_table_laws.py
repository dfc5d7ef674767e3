"""Offset table and queue picker against naive twins."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from client.leases.offsets_to_commit import OffsetsToCommit
from client.produce.queue_picker import QueuePicker
from model.message_queue import MessageQueue

OWNED = [MessageQueue("t", "a", number) for number in range(2)]
offset_steps = st.tuples(
    st.sampled_from(["update", "reset", "forget", "take", "answer", "fail"]), st.sampled_from(OWNED), st.integers(0, 9)
)


@given(st.lists(offset_steps, max_size=40))
def test_a_broker_that_refuses_to_go_back_ends_with_the_offsets_of_the_table(
    program: list[tuple[str, MessageQueue, int]],
) -> None:
    """A whole life: updates, resets, persists of which some answers are lost; then one last persist that works."""
    table = OffsetsToCommit()
    twin: dict[MessageQueue, int] = {}
    stored: dict[MessageQueue, int] = {}
    answer: dict[MessageQueue, int] = {}

    def persist() -> dict[MessageQueue, int]:
        dirty = table.dirty_offsets()
        for queue, offset in dirty.items():
            assert offset >= stored.get(queue, 0) or table.is_reset(queue), f"{queue} goes back without a flag"
            stored[queue] = offset
        return dirty

    for verb, queue, offset in program:
        if verb == "update":
            table.update(queue, offset)
            twin[queue] = max(offset, twin.get(queue, 0))
        elif verb == "reset":
            table.reset(queue, offset)
            twin[queue] = offset
        elif verb == "forget":
            # A queue that comes back starts from what the broker has, so none of its messages is under way.
            table.forget(queue)
            for known in (twin, stored, answer):
                known.pop(queue, None)
        elif verb == "take" and not answer:
            answer = persist()
        elif verb == "answer":
            table.confirm(answer)
            answer = {}
        elif verb == "fail":
            answer = {}
        assert {owned: table.offset_of(owned) for owned in OWNED} == {owned: twin.get(owned) for owned in OWNED}
    table.confirm(answer)
    table.confirm(persist())
    assert stored == twin
    assert table.dirty_offsets() == {}


picks = st.one_of(
    st.tuples(st.just("pick"), st.sampled_from([None, "a", "b", "c"]), st.just(0.0)),
    st.tuples(st.just("slow"), st.sampled_from("abc"), st.sampled_from([0.1, 0.6, 2.0, 4.0, 7.0, 20.0])),
    st.tuples(st.just("fail"), st.sampled_from("abc"), st.just(0.1)),
    st.tuples(st.just("sleep"), st.just(None), st.sampled_from([0.5, 1.0, 4.0, 12.0])),
)


def penalty_s(latency_s: float) -> float:
    """The table of the reference, read from the top."""
    for at_least_s, avoided_s in [(15.0, 30.0), (5.0, 10.0), (3.0, 6.0), (1.8, 5.0), (0.55, 2.0)]:
        if latency_s >= at_least_s:
            return avoided_s
    return 0.0


@given(
    st.lists(
        st.builds(MessageQueue, st.just("t"), st.sampled_from("abc"), st.integers(0, 3)), min_size=1, unique=True
    ).map(sorted),
    st.lists(picks, max_size=40),
)
def test_a_picked_queue_is_always_among_the_best_there_are(
    queues: list[MessageQueue], program: list[tuple[str, str | None, float]]
) -> None:
    picker, now = QueuePicker(Random(3)), 0.0
    until = dict.fromkeys("abc", 0.0)
    failed = dict.fromkeys("abc", False)
    for verb, broker, value in program:
        if verb == "sleep":
            now += value
        elif verb == "pick":
            ranks = {
                queue: (
                    3
                    if queue.broker_name == broker
                    else 2
                    if until[queue.broker_name] > now and failed[queue.broker_name]
                    else int(until[queue.broker_name] > now)
                )
                for queue in queues
            }
            assert ranks[picker.pick("t", queues, avoid_broker=broker, now=now)] == min(ranks.values())
        else:
            assert broker is not None
            picker.record(broker, value, now, failed=verb == "fail")
            until[broker] = max(until[broker], now + penalty_s(10.0 if verb == "fail" else value))
            failed[broker] = verb == "fail"
