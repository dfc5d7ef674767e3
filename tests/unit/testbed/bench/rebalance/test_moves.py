from __future__ import annotations

from pathlib import Path

import pytest

from client import MessageQueue
from model.events import Event, EventKind
from model.message import MessageExt
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.rounds import Sizes
from testbed.bench.rebalance.moves import Moves, measure_moves
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded

Q = MessageQueue(TOPIC, "broker-a", 0)


def message(offset: int) -> MessageExt:
    return MessageExt(Q, offset, 0, 0, TOPIC, b"x", "", (), {}, 0, "")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def event(kind: EventKind, client: str, topic: str = TOPIC) -> Event:
    return Event(0.0, client, 1, kind, client=client, topic=topic, broker="broker-a", queue_id=0)


def test_a_gap_is_from_the_drop_of_the_old_owner_to_the_first_pull_of_the_new_one() -> None:
    clock = Clock()
    moves = Moves(clock)
    for now, kind, client in [
        (0.0, EventKind.QUEUE_ACQUIRED, "a"),
        (1.0, EventKind.QUEUE_DROPPED, "a"),
        (1.5, EventKind.QUEUE_ACQUIRED, "b"),
        (1.75, EventKind.FIRST_PULL, "b"),
        (2.0, EventKind.QUEUE_DROPPED, "b"),
        (3.0, EventKind.QUEUE_ACQUIRED, "b"),
        (3.0, EventKind.FIRST_PULL, "b"),
    ]:
        clock.now = now
        moves.record(event(kind, client))
        moves.record(event(kind, client, "%RETRY%bench"))
    assert moves.gaps_s == [0.75], "and it has not moved the second time"
    assert moves.two_owners_s == 0


def test_two_members_have_a_queue_as_long_as_a_listener_of_the_old_one_has_messages_of_it() -> None:
    clock = Clock()
    moves = Moves(clock)
    moves.record(event(EventKind.QUEUE_ACQUIRED, "a"))
    moves.begins("a", Q)
    moves.record(event(EventKind.QUEUE_DROPPED, "a"))
    clock.now = 1.0
    moves.record(event(EventKind.QUEUE_ACQUIRED, "b"))
    clock.now = 1.25
    moves.begins("b", Q)
    moves.ends("b", Q, [message(4)])
    clock.now = 3.0
    moves.ends("a", Q, [message(4), message(5)])
    assert moves.two_owners_s == 2.0
    assert moves.duplicates == 1


@pytest.mark.simulation
def test_members_that_join_and_leave_under_load_cost_no_second_delivery(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        said: list[str] = []
        sizes = Sizes(moves=2, members=4, queues=10)
        async with embedded(simulation, tmp_path, TOPIC, sizes.queues) as cluster:
            moves = await measure_moves(cluster.name_server, sizes, said.append, simulation.loop.time)
        assert len(moves.gaps_s) >= 4
        assert max(moves.gaps_s) < 0.1
        assert len(moves.finished) > 500
        assert (moves.duplicates, moves.two_owners_s) == (0, 0)
        assert said == ["starting 4 consumers", "join and leave 1 of 2", "join and leave 2 of 2"]

    run_simulation(main)
