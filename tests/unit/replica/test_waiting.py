"""A replica that is not the master refuses what only a master may do, whatever it is."""

from __future__ import annotations

from pathlib import Path

import msgpack
import pytest

from broker.config import BrokerConfig
from client.admin.records import BrokerInfo
from model.errors import NotMaster, RlabError
from remoting.client import RemotingClient
from remoting.command import Reply
from remoting.request_code import RequestCode
from replica.waiting import waiting_server
from testbed.simulation.kernel.run import Simulation, run_simulation

CONFIG = BrokerConfig(name="broker-a", data_dir=Path("d"))


def test_everything_but_health_figures_and_the_set_is_refused_with_the_master() -> None:
    async def main(simulation: Simulation) -> None:
        own = {RequestCode.GET_REPLICAS: lambda connection, request: Reply({}, b"set")}
        with simulation.on_host("broker-a-2"):
            server = waiting_server(CONFIG, "0.0.0.0:10911", lambda: NotMaster("elsewhere", "m:1", 7), own)
            async with server, RemotingClient() as client:
                address = "broker-a-2:10911"
                state = await client.request(address, RequestCode.GET_SERVER_STATE)
                assert state.header["kind"] == "broker"
                info = await client.request(address, RequestCode.GET_BROKER_RUNTIME_INFO)
                assert BrokerInfo.from_wire(address, msgpack.unpackb(info.body or b"")).name == "broker-a"
                assert (await client.request(address, RequestCode.GET_REPLICAS)).body == b"set"
                for code in (RequestCode.GET_GROUP_LIST, RequestCode.GET_ALL_PRODUCER_INFO, RequestCode.POP_MESSAGE):
                    with pytest.raises(RlabError) as refused:
                        await client.request(address, code)
                    if isinstance(refused.value, NotMaster):
                        assert (refused.value.master_address, refused.value.epoch) == ("m:1", 7)

    run_simulation(main)
