"""The endpoints of real servers, asked over HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
import uvloop
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from broker.config import BrokerConfig
from cli.servers.watched import watched_broker, watched_name_server
from client import Admin, ConsumeFrom, Message, Producer, PushConsumer
from metrics.client import ClientMetrics
from metrics.endpoint import serve_metrics
from metrics.exporter import follow_trace, make_counts
from metrics.families import families
from namesrv.config import NameServerConfig
from remoting.tasks import background_tasks

pytestmark = pytest.mark.tcp
ANY = "127.0.0.1:0"
RLAB = [sys.executable, "-m", "cli.main"]


class Endpoints:
    """Asks endpoints."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def get(self, address: str, path: str, **headers: str) -> tuple[int, str]:
        async with self._session.get(f"http://{address}{path}", headers=headers) as answer:
            return answer.status, await answer.text()

    async def metrics(self, address: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        _, text = await self.get(address, "/metrics")
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


@asynccontextmanager
async def watched_cluster(tmp_path: Path) -> AsyncIterator[tuple[str, str, str, Endpoints]]:
    """Yields the name server's address, its endpoint, and the broker's."""
    async with (
        aiohttp.ClientSession() as session,
        watched_name_server(NameServerConfig(listen=ANY, elections=tmp_path / "elections"), ANY) as (
            name_server,
            shown,
        ),
        watched_broker(
            BrokerConfig(name="b", data_dir=tmp_path / "b", listen=ANY, name_servers=(name_server.address,)), ANY
        ) as (running, broker_shown),
    ):
        await running.broker.topics.registration.wait_attempted()
        yield name_server.address, shown, broker_shown, Endpoints(session)


def of(metrics: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float:
    return metrics[name, frozenset(labels.items())]


def test_a_broker_a_client_and_the_exporter_count_the_same_messages(tmp_path: Path) -> None:
    async def main() -> None:
        async with watched_cluster(tmp_path) as (address, shown, broker_shown, endpoints), Admin(address) as admin:
            await admin.create_topic("t", queues=2)
            client, registry, done = ClientMetrics(CollectorRegistry()), CollectorRegistry(), asyncio.Event()
            got: list[Any] = []

            async def listen(messages: Any) -> None:
                got.extend(messages)
                if len(got) == 50:
                    done.set()

            first = ConsumeFrom.FIRST_OFFSET
            options: dict[str, Any] = {"consume_from": first, "event_sink": client.event_sink}
            timed = Producer(address, latency_sink=client.latency_sink)
            async with PushConsumer(address, "g", **options) as consumer, timed as producer:
                await consumer.subscribe("t", listen)
                for number in range(50):
                    await producer.send(Message("t", str(number).encode()))
                await done.wait()
                during = await endpoints.metrics(broker_shown)
            async with background_tasks() as tasks, serve_metrics(ANY, registry) as exported:
                tasks.start_soon(lambda: follow_trace(address, make_counts(registry, settle_ms=200)))
                counted = "rlab_cluster_group_messages_handed_out_total", frozenset({("group", "g")})
                while (seen := await endpoints.metrics(exported)).get(counted) != 50:  # noqa: ASYNC110
                    await anyio.sleep(0.05)
            after = await endpoints.metrics(broker_shown)

            assert of(during, "rlab_group_members", group="g") == 1
            assert of(during, "rlab_leases_held", group="g") >= 2  # the queue of the retry topic may come later
            assert of(during, "rlab_queue_moves_total", group="g") == 2
            assert of(after, "rlab_messages_stored_total", topic="t") == 50
            assert of(after, "rlab_group_lag", group="g", topic="t") == 0
            assert of(after, "rlab_group_members", group="g") == 0
            assert of(after, "rlab_request_seconds_count", code="SEND_MESSAGE", result="SUCCESS") >= 50  # and its trace
            assert b'rlab_client_messages_handed_out_total{group="g"} 50.0' in client.exposition()
            assert b'rlab_client_send_seconds_count{result="sent"} 50.0' in client.exposition()
            assert of(seen, "rlab_cluster_group_moves_total", group="g") == 2
            assert {summary.group for summary in await admin.groups()} == {"g"}, "the exporter is no group"
            known = {family.name for family in families()}
            names = await endpoints.metrics(shown)
            for name, _ in (*during, *after, *seen, *names):
                base = name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum").removesuffix("_total")
                assert base in known or name.removesuffix("_total") in known, name
            assert of(names, "rlab_brokers") == 1
            assert of(names, "rlab_register_sets") == of(names, "rlab_register_fails") == 0
            assert of(names, "rlab_register_writes_total", result="refused") == 0

    uvloop.run(main())


def test_an_endpoint_says_whether_its_server_is_alive_and_ready(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            aiohttp.ClientSession() as session,
            watched_broker(
                BrokerConfig(name="b", data_dir=tmp_path, listen=ANY, name_servers=("127.0.0.1:1",)), ANY
            ) as (_, shown),
        ):
            endpoints = Endpoints(session)
            assert await endpoints.get(shown, "/live") == (200, "live\n")
            status, text = await endpoints.get(shown, "/ready")
            assert (status, "no name server" in text) == (503, True)
        async with watched_cluster(tmp_path / "2") as (_, shown, broker_shown, endpoints):
            assert await endpoints.get(broker_shown, "/ready") == (200, "ready\n")
            assert await endpoints.get(shown, "/ready") == (200, "ready\n")
            _, text = await endpoints.get(shown, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
            assert text.endswith("# EOF\n")

    uvloop.run(main())


def test_the_doctor_lists_problems_and_fails_and_has_none_for_a_healthy_cluster(tmp_path: Path) -> None:
    async def main() -> None:
        async with watched_cluster(tmp_path) as (address, *_):
            healthy, ill = await asyncio.gather(
                anyio.run_process([*RLAB, "doctor", "--namesrv", address, "--interval", "0.5"], check=False),
                anyio.run_process(
                    [*RLAB, "doctor", "--namesrv", f"{address},127.0.0.1:1", "--interval", "0.5", "--json"], check=False
                ),
            )
        assert healthy.returncode == 0, healthy.stdout
        assert b"no problems; observed 1 name server, 1 broker, 0 groups" in healthy.stdout
        document = json.loads(ill.stdout)
        assert (ill.returncode, document["healthy"]) == (1, False)
        assert [each["problem"] for each in document["problems"]] == ["name-server-away"]

    uvloop.run(main())
