"""What the service keeps from the log; publishing itself is tried in `test_handlers.py`."""

from __future__ import annotations

import pytest

from broker.config import Part
from model.errors import RequestCodeNotSupported
from tests.unit.broker.harness import World, records, simulated
from tests.unit.broker.sink.test_handlers import stage, started


@simulated
async def test_a_batch_that_is_being_published_pins_where_its_targets_ended(world: World) -> None:
    peer = await started(world)
    await peer.send(queue_id=1)
    await stage(peer, range(3))
    sinks, topic_id = world.broker.sink, world.broker.topics.table.existing("t").topic_id
    sinks.commit("q-1", 0, [(0, 0, 3)], lambda failure: None)
    pins = sinks.needed_from()
    assert {key: start for key, start in pins.items() if key[0] == topic_id} == {
        (topic_id, 0): 0,
        (topic_id, 1): 1,
        (topic_id, 2): 0,
    }
    await world.sleep(1)
    assert sinks.needed_from() == {}


@simulated
async def test_a_broker_without_sinks_refuses_stages_and_does_all_the_rest(world: World) -> None:
    peer = await started(world, parts=frozenset(Part) - {Part.SINK})
    with pytest.raises(RequestCodeNotSupported):
        await stage(peer, range(3))
    assert await peer.send() == 0
    assert len(records(await peer.pull())) == 1
