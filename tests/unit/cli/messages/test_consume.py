from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
import typer
from typer.testing import CliRunner

from cli.main import app
from cli.messages.consume import Consuming, broadcast_options, message_document, parse_start
from client.admin.admin import Admin
from client.allocate import AllocateMessageQueueAveragely
from client.allocate.registry import BUILT_IN_STRATEGIES, strategy_named
from model.errors import ConfigError, QueryNotFound, TopicNotExist
from model.heartbeat import ConsumeFrom, MessageModel
from model.message import MessageExt
from model.message_queue import MessageQueue
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.client.allocate.strategy_package import install

pytestmark = pytest.mark.simulation


def consuming(cluster: SimulatedCluster, **given: Any) -> Callable[[], Coroutine[Any, Any, None]]:
    """A run of the command; without further options, of a new group on the topic `t` for five seconds."""
    own = {"count": None, "timeout_s": 5.0, "as_json": False} | given
    topic, tags, strategy = (
        own.pop(name, default) for name, default in (("topic", "t"), ("tags", "*"), ("strategy", "AVG"))
    )
    printed = {name: own.pop(name) for name in ("count", "timeout_s", "as_json")}
    options: dict[str, Any] = {"wait": False, "consume_from": ConsumeFrom.FIRST_OFFSET} | own
    consuming = Consuming(topic, tags, **printed)
    return partial(consuming.run, ",".join(cluster.addresses), "g", strategy, **options)


def in_cluster(scenario: Callable[[SimulatedCluster], Awaitable[None]], data_dir: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with SimulatedCluster(simulation, data_dir, brokers=1) as cluster:
            await cluster.create_topic("t", queues=1)
            with simulation.on_host("terminal"):
                await scenario(cluster)

    run_simulation(main)


def test_bodies_are_printed_a_line_each_in_the_order_of_the_queue(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await (await cluster.start_producer()).send_many("t", 100)
        await consuming(cluster)()

    in_cluster(scenario, tmp_path)
    assert capfdbinary.readouterr().out == b"".join(b"%d\n" % n for n in range(100))


@pytest.mark.parametrize("order", ["queue", "key"])
def test_in_order_they_come_as_they_were_sent_and_an_unknown_order_is_refused(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], order: str
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await cluster.start_producer()
        for n in range(40):
            await producer.send("t", b"%d" % n, key=f"k{n % 2}")
        await consuming(cluster, order=order, count=40)()
        with pytest.raises(ConfigError, match="order must be one of none, queue, key; got 'keys'"):
            await consuming(cluster, order="keys")()

    in_cluster(scenario, tmp_path)
    lines = [int(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [n for n in lines if n % 2] == list(range(1, 40, 2))
    assert [n for n in lines if n % 2 == 0] == list(range(0, 40, 2))
    assert order == "key" or lines == list(range(40))


def test_popped_messages_are_printed_and_what_is_not_printed_any_more_is_given_back(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await (await cluster.start_producer()).send_many("t", 10)
        await consuming(cluster, mode="pop", count=4)()
        await consuming(cluster, mode="pop", count=6)()
        with pytest.raises(ConfigError, match="mode must be one of pull, pop; got 'push'"):
            await consuming(cluster, mode="push")()

    in_cluster(scenario, tmp_path)
    lines = capfdbinary.readouterr().out.splitlines()
    assert sorted(map(int, lines)) == list(range(10))


def test_exactly_so_many_are_consumed_and_the_rest_is_left_to_the_group(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await (await cluster.start_producer()).send_many("t", 10)
        started = cluster.simulation.loop.time()
        await consuming(cluster, count=3, timeout_s=None)()
        assert cluster.simulation.loop.time() - started < 2
        async with Admin(cluster.addresses) as admin:
            assert [q.committed for q in (await admin.group("g")).queues if q.queue.topic == "t"] == [3]
        await consuming(cluster, count=7)()

    in_cluster(scenario, tmp_path)
    assert capfdbinary.readouterr().out == b"".join(b"%d\n" % n for n in range(10))


def test_too_few_in_the_time_given_is_a_failure(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await (await cluster.start_producer()).send_many("t", 2)
        started = cluster.simulation.loop.time()
        with pytest.raises(QueryNotFound, match=r"received 2 of 3 messages in 4\.5 s"):
            await consuming(cluster, count=3, timeout_s=4.5)()
        assert cluster.simulation.loop.time() - started == pytest.approx(4.5, abs=0.5)

    in_cluster(scenario, tmp_path)
    assert capfdbinary.readouterr().out == b"0\n1\n"


def test_only_wanted_tags_come_and_each_line_is_a_document(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer = await cluster.start_producer()
        for tag in ("a", "b", "c"):
            await producer.send("t", tag.encode(), tags=tag, key="k")
        await consuming(cluster, tags="a || c", as_json=True, count=2)()

    in_cluster(scenario, tmp_path)
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [(line["body"], line["tags"], line["offset"]) for line in lines] == [("a", "a", 0), ("c", "c", 2)]
    assert (lines[0]["topic"], lines[0]["queue"]) == ("t", "t@broker-a:0")


def test_a_topic_that_does_not_exist_is_an_error_unless_it_is_to_be_waited_for(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with pytest.raises(TopicNotExist, match="rlab topic create later"):
            await consuming(cluster, topic="later")()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consuming(cluster, topic="later", wait=True, count=1, timeout_s=120.0))
            await anyio.sleep(3)
            await cluster.create_topic("later")
            await (await cluster.start_producer()).send("later", b"at last")

    in_cluster(scenario, tmp_path)
    assert capfdbinary.readouterr().out == b"at last\n"


@pytest.mark.walk
def test_the_help_names_every_strategy_that_can_be_chosen() -> None:
    shown = " ".join(CliRunner().invoke(app, ["consume", "--help"], terminal_width=200, color=False).output.split())
    assert all(name in shown for name in BUILT_IN_STRATEGIES)
    assert "{strategies}" not in shown


def test_a_strategy_of_an_installed_package_consumes_and_the_group_has_targets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.start_consumer("g", "t", strategy=strategy_named("LAST_TAKES_ALL"))
        async with anyio.create_task_group() as tasks, Admin(cluster.addresses) as admin:
            tasks.start_soon(consuming(cluster, strategy="LAST_TAKES_ALL", timeout_s=60.0))
            await anyio.sleep(30)
            info = await admin.group("g")
            (queue,) = [each for each in info.queues if each.queue.topic == "t"]
            last = max(member.client_id for member in info.members)
            assert len(info.members) == 2
            assert (queue.targets, queue.owner, info.unknown_strategies, info.balanced) == ((last,), last, (), True)

    install(monkeypatch, tmp_path, "LAST_TAKES_ALL")
    shown = CliRunner().invoke(app, ["consume", "--help"], terminal_width=200, color=False).output
    assert "LAST_TAKES_ALL" in shown
    in_cluster(scenario, tmp_path / "brokers")


def test_a_group_whose_strategy_is_broken_here_is_shown_without_targets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Elsewhere(AllocateMessageQueueAveragely):
        name = "BROKEN_HERE"

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.start_consumer("g", "t", strategy=Elsewhere())
        await anyio.sleep(5)
        async with Admin(cluster.addresses) as admin:
            info = await admin.group("g")
        assert info.unknown_strategies == ("BROKEN_HERE",)
        assert {queue.targets for queue in info.queues} == {()}

    install(monkeypatch, tmp_path, "BROKEN_HERE", package="broken-here", code="raise RuntimeError('NAME')")
    in_cluster(scenario, tmp_path / "brokers")
    assert "strategy 'BROKEN_HERE' of package broken-here" in caplog.text


def test_a_strategy_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with pytest.raises(ConfigError, match="no strategy 'MINE'; there are AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, "):
            await consuming(cluster, strategy="MINE")()

    in_cluster(scenario, tmp_path)


def test_an_output_that_cannot_be_written_ends_it_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "read-only").touch()

    async def scenario(cluster: SimulatedCluster) -> None:
        await (await cluster.start_producer()).send_many("t", 3)
        with (tmp_path / "read-only").open() as read_only, monkeypatch.context() as patched:
            patched.setattr("sys.stdout", read_only)
            with pytest.raises(OSError, match="Bad file descriptor"):
                await consuming(cluster, timeout_s=None)()
        async with Admin(cluster.addresses) as admin:
            assert [q.committed for q in (await admin.group("g")).queues if q.queue.topic == "t"] == [0]

    in_cluster(scenario, tmp_path)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", (ConsumeFrom.FIRST_OFFSET, 0)),
        ("latest", (ConsumeFrom.LAST_OFFSET, 0)),
        ("1700000000000", (ConsumeFrom.TIMESTAMP, 1_700_000_000_000)),
        ("0", (ConsumeFrom.TIMESTAMP, 1)),
        ("2023-11-14T22:13:20+00:00", (ConsumeFrom.TIMESTAMP, 1_700_000_000_000)),
    ],
)
def test_a_group_starts_at_an_end_or_at_a_time(text: str, start: tuple[ConsumeFrom, int]) -> None:
    assert parse_start(text) == start


def test_a_time_without_zone_is_local() -> None:
    local = datetime(2023, 11, 14, 22, 13, 20)
    assert parse_start(local.isoformat())[1] == int(local.astimezone(UTC).timestamp() * 1000)
    for text in ("yesterday", "-1h", "0001-01-02", "1969-12-31T00:00:00+00:00"):
        with pytest.raises(
            typer.BadParameter, match=f"--from '{re.escape(text)}': use earliest, latest, a time since 1970"
        ):
            parse_start(text)


def message(body: bytes) -> MessageExt:
    return MessageExt(MessageQueue("t", "a", 1), 2, 3, 0, "t", body, "tag", ["k"], {"p": "v"}, 4, "id")


def test_a_body_that_is_not_text_is_reported_in_base64() -> None:
    assert message_document(message("grün".encode())) == {
        "body": "grün",
        "topic": "t",
        "queue": "t@a:1",
        "offset": 2,
        "keys": ["k"],
        "tags": "tag",
        "properties": {"p": "v"},
        "born_ms": 4,
        "stored_ms": 3,
        "message_id": "id",
    }
    assert message_document(message(b"\xff\x00"))["body_base64"] == "/wA="


@pytest.mark.parametrize(
    "arguments",
    [["t"], ["t", "--group", "g", "--from", "soon"], ["t", "--group", "g", "--count", "0"], ["--group", "g"]],
)
def test_wrong_usage_is_reported_before_anything_is_consumed(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["consume", *arguments]).exit_code == 2


def test_a_broadcast_prints_every_message_and_goes_on_where_its_name_was(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        other = await cluster.start_consumer("g", "t", model=MessageModel.BROADCASTING, offsets_dir=tmp_path / "other")
        await (await cluster.start_producer()).send_many("t", 6)
        broadcast = broadcast_options("me", tmp_path / "mine")
        await consuming(cluster, **broadcast, count=2)()
        await consuming(cluster, **broadcast, count=4)()
        assert len(other.deliveries) == 6

    in_cluster(scenario, tmp_path)
    assert capfdbinary.readouterr().out == b"0\n1\n2\n3\n4\n5\n"


def test_a_folder_for_offsets_without_a_broadcast_is_refused() -> None:
    assert broadcast_options(None, None) == {}
    with pytest.raises(typer.BadParameter, match="--offsets-dir needs --broadcast"):
        broadcast_options(None, Path("x"))
