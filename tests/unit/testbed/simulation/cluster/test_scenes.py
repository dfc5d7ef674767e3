from __future__ import annotations

import re

import anyio
import pytest

from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.cluster.scenes import SceneStart, filled_with, now, render

pytestmark = pytest.mark.simulation


async def a_send(cluster: SimulatedCluster) -> SceneStart:
    """A consumer that has its queue gets a message."""
    await cluster.create_topic("orders", queues=1, brokers=["broker-a"])
    await cluster.start_consumer("billing", "orders")
    await cluster.wait_converged(1)
    await anyio.sleep(4)
    began = now(cluster)
    producer = await cluster.start_producer(host="p", instance_name="p")
    await producer.send("orders", b"m")
    await anyio.sleep(0.1)
    return began


def test_a_scene_shows_what_happened_after_its_preparation_the_same_each_time_and_a_page_gets_it_in_its_place() -> None:
    shown = render(a_send)
    head, *rows = shown.splitlines()
    assert head.split() == ["ms", "node", "seq", "kind", "queue", "what", "cause"]
    assert [row.split()[3] for row in rows] == ["CLIENT_START", "ROUTE_CHANGED", "FIRST_MESSAGE"]
    assert all(int(row.split()[0]) < 100 for row in rows), "times count from the begin of the scene"
    page = "before\n<!-- scene: send -->\n```text\nold\n```\nafter"
    assert filled_with({"send": a_send}, page) == re.sub("old", lambda _: shown, page)
