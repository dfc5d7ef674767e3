"""The table of held pulls against a naive twin that keeps them in one list."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.messages.long_polls import HeldPull, LongPollTable
from model.errors import SystemBusy
from remoting.command import REQUEST, Command

MAX_HELD, MAX_PER_QUEUE = 3, 2

queues = st.tuples(st.sampled_from("tu"), st.integers(0, 1))
connections = st.sampled_from("abc")
programs = st.lists(
    st.one_of(
        st.tuples(st.just("hold"), connections, queues, st.integers(0, 20)),
        st.tuples(st.just("hold"), connections, queues, st.integers(0, 20)),
        st.tuples(st.just("queue"), queues),
        st.tuples(st.just("connection"), connections),
        st.tuples(st.just("sleep"), st.integers(1, 5)),
    ),
    max_size=60,
)


@settings(max_examples=400)
@given(programs)
def test_the_long_poll_table_equals_its_naive_twin(program: list[tuple[object, ...]]) -> None:
    table: LongPollTable[str] = LongPollTable(max_held=MAX_HELD, max_per_queue=MAX_PER_QUEUE)
    twin: list[HeldPull[str]] = []
    answered: list[HeldPull[str]] = []
    now = 0.0

    def taken(pulls: list[HeldPull[str]], wanted: Callable[[HeldPull[str]], bool]) -> None:
        expected = [pull for pull in twin if wanted(pull)]
        assert sorted(map(id, pulls)) == sorted(map(id, expected))
        answered.extend(pulls)
        twin[:] = [pull for pull in twin if not wanted(pull)]

    for step in program:
        match step:
            case "hold", str(connection), (str(topic), int(queue_id)), int(wait):
                pull = HeldPull(connection, Command(REQUEST, 11, 0, {}, None), (topic, queue_id), now + wait)
                full = len(twin) >= MAX_HELD or sum(one.queue == pull.queue for one in twin) >= MAX_PER_QUEUE
                assert held(table, pull) is not full
                twin += [] if full else [pull]
            case "queue", (str(topic), int(queue_id)):
                oldest_first = [pull for pull in twin if pull.queue == (topic, queue_id)]
                pulls = table.take_queue(topic, queue_id)
                assert pulls == oldest_first
                taken(pulls, lambda pull, queue=(topic, queue_id): pull.queue == queue)  # type: ignore[misc]
            case "connection", str(connection):
                taken(table.take_connection(connection), lambda pull, gone=connection: pull.connection == gone)  # type: ignore[misc]
            case "sleep", int(seconds):
                now += seconds
                pulls = table.expire(now)
                assert pulls == sorted(pulls, key=lambda pull: pull.deadline)
                taken(pulls, lambda pull, moment=now: pull.deadline <= moment)  # type: ignore[misc]
        assert len(table) == len(twin)
        assert table.next_deadline() == min((pull.deadline for pull in twin), default=None)
        assert len({id(pull) for pull in answered}) == len(answered), "a pull was answered twice"
    taken(table.expire(now + 20), lambda pull: True)
    assert (table.next_deadline(), len(table), twin) == (None, 0, [])
    assert (table._by_queue, table._by_connection) == ({}, {})


def held(table: LongPollTable[str], pull: HeldPull[str]) -> bool:
    try:
        table.hold(pull)
    except SystemBusy:
        return False
    return True
