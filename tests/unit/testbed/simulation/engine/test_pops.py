"""The check learns of an acknowledgement when it is sent, and of its answer only when that comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import anyio

from client.pop.requests import AckedByDelivery, Dead, PopRequests
from model.errors import ConnectionLost, RlabError
from model.heartbeat import ConsumeFrom
from model.message_queue import MessageQueue
from testbed.simulation.checks.pop import PopCheck
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.engine.pops import count_unacknowledged, watch_acknowledgements
from tests.simulation.conftest import Simulate

QUEUE = MessageQueue("t", "broker-a", 0)
ACKED: AckedByDelivery = {("t", 0, 7): [1, 2]}


class AckingRequests:
    """Finds offset 2 dead, or loses its answer."""

    def __init__(self) -> None:
        self.is_lost = False

    async def ack(self, broker_name: str, acked: AckedByDelivery) -> Dead:
        return [("t", 0, 2)]

    def start_ack(self, broker_name: str, acked: AckedByDelivery, answered: Callable[[Dead | RlabError], None]) -> bool:
        answered(ConnectionLost("gone") if self.is_lost else [("t", 0, 2)])
        return True


def delivered_again(check: PopCheck) -> list[str]:
    for offset in (1, 2):
        check.delivered("c", QUEUE, offset, b"%d" % offset, 9.0)
    return check.violations


def watched() -> tuple[AckingRequests, PopCheck]:
    requests, check = AckingRequests(), PopCheck()
    for offset in (1, 2):
        check.delivered("c", QUEUE, offset, b"%d" % offset, 0.0)
    loop = asyncio.new_event_loop()
    loop.close()
    watch_acknowledgements(cast(PopRequests, requests), check, loop)
    return requests, check


def test_what_was_acknowledged_may_not_are_redelivered_and_what_was_dead_may() -> None:
    requests, check = watched()
    outcomes: list[Dead | RlabError] = []
    assert requests.start_ack("broker-a", ACKED, outcomes.append)
    assert outcomes == [[("t", 0, 2)]]
    [violation] = delivered_again(check)
    assert f"{QUEUE} 1 at" in violation

    requests, check = watched()
    asyncio.run(requests.ack("broker-a", ACKED))
    assert len(delivered_again(check)) == 1


def test_what_may_have_been_acknowledged_may_are_redelivered() -> None:
    requests, check = watched()
    requests.is_lost = True
    requests.start_ack("broker-a", ACKED, lambda outcome: None)
    assert delivered_again(check) == []


def test_a_message_of_a_group_is_unacknowledged_while_it_is_invisible_and_when_it_is_to_be_delivered_again(
    simulate: Simulate,
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=1)
        producer = await cluster.start_producer()
        await producer.send_many("t", 2)
        popper = await cluster.start_popper("g", "t", consume_from=ConsumeFrom.FIRST_OFFSET)
        first, _ = await popper.receive(invisible_s=5)
        place = ("broker-a", "g t:0")
        assert count_unacknowledged(cluster, "g") == {place: 2}
        await popper.ack([first])
        assert count_unacknowledged(cluster, "g") == {place: 1}
        await anyio.sleep(6)
        assert count_unacknowledged(cluster, "g") == {place: 1}
        assert count_unacknowledged(cluster, "h") == {}
        [again] = await popper.receive()
        await popper.ack([again])
        assert count_unacknowledged(cluster, "g") == {}

    simulate(scenario, brokers=1)
