"""Queues of topics that the route table does not have."""

from __future__ import annotations

import pytest

from client.produce.unknown_topics import _TEMPLATED_S, UnknownTopics
from model.errors import NoPermission, TopicNotExist
from model.topic_route import Perm
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation


def test_queues_of_a_new_topic_are_made_up_from_the_template_until_its_route_is_there(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        instance = (await cluster.start_producer()).producer._running()
        unknown, topics = UnknownTopics(), dict[str, None]()
        made = await unknown.queues(instance, "t", topics, 0.0)
        assert {queue.broker_name for queue in made} == {*cluster.brokers}
        assert list(topics) == ["t"]
        await cluster.create_topic("t", queues=1)
        assert await unknown.queues(instance, "t", topics, 0.9 * _TEMPLATED_S) is made
        assert len(await unknown.queues(instance, "t", topics, _TEMPLATED_S)) == 2

    simulate(scenario)


def test_a_topic_that_no_one_creates_or_that_may_only_be_read_is_refused(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("readable", perm=Perm.READ)
        instance = (await cluster.start_producer()).producer._running()
        topics = dict[str, None]()
        with pytest.raises(TopicNotExist, match="no broker creates topics automatically"):
            await UnknownTopics().queues(instance, "t", topics, 0.0)
        assert not topics
        with pytest.raises(NoPermission, match="takes no messages now"):
            await UnknownTopics().queues(instance, "readable", topics, 0.0)

    simulate(scenario, auto_create_topics=False)
