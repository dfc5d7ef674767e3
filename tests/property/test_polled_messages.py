"""What lite pull consumers may commit, against a naive twin: the first message that nobody has said to be processed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from client.lite_pull.polled_messages import PolledMessages
from client.pull.owned_queue import OwnedQueue
from model.message_queue import MessageQueue
from tests.unit.client.pull.owned_queues import message_at, owned_queue

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(0, 2), st.integers(1, 4)),
        st.tuples(st.just("skip"), st.integers(0, 2), st.integers(1, 4)),
        st.tuples(st.just("poll"), st.integers(0, 2), st.integers(1, 4)),
        st.tuples(st.just("commit"), st.just(0), st.just(0)),
        st.tuples(st.just("lose"), st.integers(0, 2), st.just(0)),
    ),
    max_size=60,
)


class Twin:
    """One life of one queue: which offsets there are, and how far each has got."""

    def __init__(self, start: int) -> None:
        self.next = start
        self.state: dict[int, str] = {}
        self.committed = start

    def unprocessed(self) -> int:
        return min((offset for offset, state in self.state.items() if state != "processed"), default=self.next)


@given(st.booleans(), STEPS)
def test_commits_are_those_of_a_naive_twin(auto_commit: bool, steps: list[tuple[str, int, int]]) -> None:
    commits = PolledMessages(auto_commit=auto_commit)
    queues = [MessageQueue("t", "b", n) for n in range(3)]
    owned: list[OwnedQueue] = []
    twins = [Twin(0) for _ in queues]
    for queue in queues:
        owned.append(owned_queue(queue))
        commits.begin(owned[-1])
    for step, which, n in steps:
        queue, own, twin = queues[which], owned[which], twins[which]
        if step == "arrive":
            own.process_queue.put([message_at(queue, twin.next + i) for i in range(n)])
            twin.state.update({twin.next + i: "waiting" for i in range(n)})
            twin.next += n
        elif step == "skip":
            twin.next += n
            own.process_queue.advance(twin.next)
        elif step == "lose":
            own.detached = True
            own.stop()
            start = own.commit_offset
            owned[which] = owned_queue(queue, start)
            commits.begin(owned[which])
            twins[which] = Twin(start)
        else:
            for each in twins:
                each.state = {offset: "processed" if s == "out" else s for offset, s in each.state.items()}
        if step == "poll":
            commits.finish_polled()
            taken = own.process_queue.next_batch(n, 0.0)
            if taken:
                commits.add_polled(own, taken, 0.0)
            expected = sorted(offset for offset, state in twin.state.items() if state == "waiting")[:n]
            assert [each.offset for each in taken] == expected
            twin.state.update(dict.fromkeys(expected, "out"))
        elif step == "commit":
            commits.commit(owned)
            for each in twins:
                each.committed = each.unprocessed()
        for own, twin in zip(owned, twins, strict=True):
            assert own.commit_offset == (twin.unprocessed() if auto_commit else twin.committed)
            assert not own.rewound
