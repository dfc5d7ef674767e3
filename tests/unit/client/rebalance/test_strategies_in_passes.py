"""What a pass makes of its strategy: when it is asked, what it is given, and what becomes of a bad answer."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from client.allocate import AllocateMessageQueueAveragely, AllocateMessageQueueBalancedSticky
from model.events import EventKind
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

Q0, Q1 = (MessageQueue("t", "broker-a", n) for n in range(2))


class Moody(AllocateMessageQueueAveragely):
    """AVG, but it fails at times, and counts how often it is asked about the topic `t`."""

    fails = False
    asked = 0

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        self.asked += queues[0].topic == "t"
        if self.fails:
            raise ValueError("not today")
        return super().allocate(group, client_id, queues, members)


def test_a_strategy_that_fails_changes_nothing(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        moody = Moody()
        consumer = await cluster.start_consumer("g", "t", strategy=moody)
        await cluster.wait_converged(1)
        await anyio.sleep(2)  # its retry topic has got a route, and no other will change
        moody.fails = True
        other = await cluster.start_consumer("g", "t")
        at = len(cluster.events)
        await anyio.sleep(60)
        assert (consumer.queues, other.queues) == ([Q0, Q1], [])
        ends = [e for e in cluster.events_of(EventKind.REBALANCE_END, at) if e.client == consumer.client_id]
        assert {event.detail for event in ends} == {"NOTIFY unbalanced", "TIMER unbalanced"}
        moody.fails = False
        await cluster.wait_converged(5)
        assert (consumer.queues, other.queues) == ([Q0], [Q1])


def test_a_strategy_is_asked_again_only_when_members_or_queues_have_changed(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        moody = Moody()
        await cluster.start_consumer("g", "t", strategy=moody)
        await cluster.wait_converged(1)
        await anyio.sleep(10)
        asked = moody.asked
        await anyio.sleep(600)
        assert moody.asked == asked
        await cluster.start_consumer("g", "t")
        await anyio.sleep(600)
        assert moody.asked == asked + 1

    simulate(scenario, brokers=1)


@pytest.mark.parametrize(
    ("returned", "offence"),
    [([Q0, Q0], "twice"), ([Q0, MessageQueue("other", "broker-a", 0)], "which it was not given"), (None, "raised")],
)
def test_a_strategy_that_returns_nonsense_is_reported_by_name_and_what_is_owned_stays(
    simulate: Simulate, caplog: pytest.LogCaptureFixture, returned: list[MessageQueue] | None, offence: str
) -> None:
    class Broken(AllocateMessageQueueAveragely):
        name = "MINE"
        broken = False

        def allocate(
            self, group: str, client_id: str, queues: Sequence[MessageQueue], members: Sequence[str]
        ) -> list[MessageQueue]:
            if self.broken and queues[0].topic == "t":
                return returned  # type: ignore[return-value]  # wrong on purpose
            return super().allocate(group, client_id, queues, members)

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=2)
        own = Broken()
        consumer = await cluster.start_consumer("g", "t", strategy=own)
        await cluster.wait_converged(1)
        await anyio.sleep(2)
        own.broken = True
        other = await cluster.start_consumer("g", "t", strategy=own)
        await anyio.sleep(25)
        assert (consumer.queues, other.queues) == ([Q0, Q1], [])
        own.broken = False
        await cluster.wait_converged(2)
        assert (consumer.queues, other.queues) == ([Q0], [Q1])

    with caplog.at_level("WARNING"):
        simulate(scenario, brokers=1)
    assert any("strategy MINE of group g" in line and offence in line for line in caplog.text.splitlines())


def test_a_strategy_over_all_topics_knows_the_queues_of_topics_that_only_others_have(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", queues=4)
        await cluster.create_topic("u", queues=3)
        strategy = AllocateMessageQueueBalancedSticky()
        first = await cluster.start_consumer("g", "t", strategy=strategy)
        second = await cluster.start_consumer("g", "t", strategy=strategy)
        await second.consumer.subscribe("u", second.listener(None))
        await cluster.wait_converged(5)
        await anyio.sleep(35)  # the retry topic has come; it is one queue more
        await cluster.wait_converged(1)
        # Without its knowledge of u, the first would share t and the retry topic evenly and have only two or three.
        assert [len(each.consumer.queues) for each in (first, second)] == [4, 4]
        assert "u" not in {queue.topic for queue in first.queues}
        await cluster.create_topic("u", queues=5)
        await anyio.sleep(35)
        await cluster.wait_converged(1)
        assert [len(each.consumer.queues) for each in (first, second)] == [5, 5]

    simulate(scenario, brokers=1)
