"""The connection of a client of RocketMQ 5 to one broker."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from model.errors import ConnectFailed
from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.cluster.stock_link import StockLink
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation


def settings() -> Any:
    subscription = MESSAGES["Subscription"](group=MESSAGES["Resource"](name="g"))
    return MESSAGES["TelemetryCommand"](
        settings=MESSAGES["Settings"](client_type=proto.PUSH_CONSUMER, subscription=subscription)
    )


def test_a_lost_connection_is_replaced_and_the_settings_are_requested_again(simulate: Simulate) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        server = cluster.brokers["broker-a"]
        link = StockLink(server.address, "c@1", settings())
        beat = MESSAGES["HeartbeatRequest"](group=MESSAGES["Resource"](name="g"), client_type=proto.PUSH_CONSUMER)
        for _ in range(2):
            [answer] = await link.ask("Heartbeat", beat)
            assert answer.status.code == proto.OK
            assert (await link.settings()).subscription.receive_batch_size == 32
            cluster.simulation.network.cut("broker-a")
            await anyio.sleep(1)
        await server.crash()
        with pytest.raises(ConnectFailed):
            await link.ask("Heartbeat", beat)

    simulate(scenario, brokers=1)
