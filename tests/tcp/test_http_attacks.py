"""Every HTTP port of the project under `rlab fuzz --http`, in a short form, and under more connections than places."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
import uvloop

from broker.config import BrokerConfig
from cli.servers.watched import watched_broker, watched_name_server
from client import Admin, Message, Producer
from console.server import ConsoleOptions, run_console
from model.limits import MAX_CONNECTIONS, MAX_CONNECTIONS_OF_ADDRESS, MAX_HTTP_CONNECTIONS
from namesrv.config import NameServerConfig
from remoting.address import parse_address
from testbed.cluster.cluster_bed import ClusterBed
from testbed.cluster.control.http import serve_control
from testbed.cluster.control.plane import Plane
from testbed.fuzz.http_run import CONTROL_TOKEN, fuzz_http
from testbed.fuzz.run import FuzzPlan

pytestmark = pytest.mark.tcp
ANY = "127.0.0.1:0"


@asynccontextmanager
async def watched_cluster(data: Path) -> AsyncIterator[tuple[str, str, str]]:
    """Yields the address of the name server, and the metrics of it and of the broker."""
    async with watched_name_server(NameServerConfig(listen=ANY), ANY) as (name_server, shown):
        config = BrokerConfig(name="b", data_dir=data, listen=ANY, name_servers=(name_server.address,))
        async with watched_broker(config, ANY) as (running, broker_shown):
            await running.broker.topics.registration.wait_attempted()
            yield name_server.address, shown, broker_shown


def test_no_request_over_http_is_an_internal_error_or_silence_at_any_port(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with watched_cluster(tmp_path) as (name_server, shown, broker_shown), Admin(name_server) as admin:
            await admin.create_topic("orders", queues=2)
            plane = Plane(ClusterBed([], [], {}), admin, name_server)
            console = ConsoleOptions(name_servers=name_server, allow_changes=True)
            async with run_console(console) as page, serve_control(plane, ANY, "1") as (control, token):
                for address, commands in ((shown, 150), (broker_shown, 150), (page, 500), (control, 500)):
                    plan = FuzzPlan(seed=11, commands=commands)
                    report = await fuzz_http(address, plan, environment={CONTROL_TOKEN: token})
                    assert report.found == []
                    assert {"200", "400", "404"} <= set(report.codes)

    uvloop.run(main())
    assert "Traceback" not in caplog.text


def test_more_silent_http_connections_than_places_leave_the_broker_its_own_and_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    of_address = MAX_HTTP_CONNECTIONS * MAX_CONNECTIONS_OF_ADDRESS // MAX_CONNECTIONS

    async def main() -> None:
        async with watched_cluster(tmp_path) as (name_server, _, broker_shown):
            host, port = parse_address(broker_shown)
            streams = [await anyio.connect_tcp(host, port) for _ in range(of_address + 30)]
            for refused in streams[of_address:]:
                assert (await refused.receive()).startswith(b"HTTP/1.1 503 ")
            async with Producer(name_server) as producer:
                await producer.send(Message("orders", b"beside them"))
            for stream in streams:
                await stream.aclose()

    with caplog.at_level(logging.WARNING):
        uvloop.run(main())
    assert "your address already has its maximum of 384 connections to this port" in caplog.text
