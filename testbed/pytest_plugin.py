"""The pytest plugin: fixtures of a cluster that a test breaks, and barriers that wait until the cluster is whole again.

    async def test_billing_survives(rlab_cluster, rlab_group, rlab_verdict, member, send):
        async with member("c1"), member("c2"):
            async with rlab_cluster.drop("NOTIFY_CONSUMER_IDS_CHANGED", client="c2"):
                await send(20)
            await rlab_cluster.balanced(rlab_group)
            await rlab_cluster.consumed(rlab_group)
        assert not rlab_verdict.lost

pytest loads it by the name `pytest_rlab`, a module that has all of its fixtures and hooks. So they are registered once,
although this module has two names in a checkout. The cluster is a process, `rlab cluster --control 0`, and the plugin
sends HTTP to it: it imports little, and may be used beside packages of any name. docs/testing.md has recipes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from model.counted import plural
from testbed.cluster.control.remote import ControlError, RemoteCluster

T = TypeVar("T")
_RLAB = (sys.executable, "-P", "-m", "rlab")
_STOP_S = 20.0
_MAX_NAME = 40


class DeliveryVerdict:
    """The messages of a test: lost ones, which were acknowledged and not received, and duplicates."""

    def __init__(self) -> None:
        self.sent: Counter[Any] = Counter()
        self.acknowledged: Counter[Any] = Counter()
        self.received: Counter[Any] = Counter()

    def sending(self, message: Any) -> Any:
        """Record a message before it is sent; returns it."""
        self.sent[message] += 1
        return message

    def acknowledge(self, message: Any) -> None:
        """Record that the send of a message has returned."""
        self.acknowledged[message] += 1

    def receive(self, message: Any) -> None:
        """Record that a listener got a message."""
        self.received[message] += 1

    @property
    def lost(self) -> list[Any]:
        """Messages that were acknowledged, and that no listener got."""
        return [each for each in self.acknowledged if not self.received[each]]

    @property
    def twice(self) -> list[Any]:
        """Messages that were received more often than they were sent."""
        return [each for each, n in self.received.items() if n > max(1, self.sent[each])]

    def __str__(self) -> str:
        counts = [len(each) for each in (self.sent, self.acknowledged, self.received, self.lost, self.twice)]
        return "{} sent, {} acknowledged, {} received, {} lost, {} twice".format(*counts)


# --- fixtures --------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings of the plugin."""
    parser.addini("rlab_brokers", "Brokers of the fixture rlab_cluster.", default="2")
    parser.addini("rlab_args", "Further options of rlab cluster.", type="args", default=[])


@pytest.fixture(scope="session")
def rlab_cluster(pytestconfig: pytest.Config) -> Iterator[RemoteCluster]:
    """A cluster of this session, in child processes; each worker of pytest-xdist has one.

    With RLAB_FAULT_CONTROL and RLAB_FAULT_TOKEN it is the one that runs there.
    """
    control, token = os.environ.get("RLAB_FAULT_CONTROL"), os.environ.get("RLAB_FAULT_TOKEN")
    if control and token:
        yield RemoteCluster(control, token)
        return
    options = ["--port", "0", "--control", "0", "--json", "--exit-with-stdin"]
    options += ["--brokers", str(pytestconfig.getini("rlab_brokers")), *pytestconfig.getini("rlab_args")]
    process = subprocess.Popen([*_RLAB, "cluster", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None, "it is a pipe"
    try:
        line = process.stdout.readline()
        if not line:
            pytest.fail(f"rlab cluster did not start (exit code {process.wait()}); its error is above")
        started = json.loads(line)
        yield RemoteCluster(started["control"], started["token"], started["address"])
    finally:
        process.terminate()
        process.communicate(timeout=_STOP_S)


def _fresh(request: pytest.FixtureRequest) -> str:
    # Names of tests may have letters of any language (PEP 3131), names of topics and groups have ASCII alone.
    name = re.sub(r"[^\w-]+", "-", request.node.name, flags=re.ASCII)[:_MAX_NAME].strip("-")
    return f"{name}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def rlab_topic(rlab_cluster: RemoteCluster, request: pytest.FixtureRequest) -> str:
    """A topic of this test alone, with four queues on each broker."""
    topic = _fresh(request)
    rlab_cluster.blocking.create_topic(topic)
    return topic


@pytest.fixture
def rlab_group(request: pytest.FixtureRequest) -> str:
    """The name of a group of this test alone."""
    return _fresh(request)


@pytest.fixture
def rlab_simulate(tmp_path: Path) -> Callable[..., Any]:
    """Runs `scenario(cluster)` in virtual time, on a cluster with the verbs and barriers of `rlab_cluster`.

    `rlab_simulate(scenario, seed=0, brokers=2, ...)`: the other options are those of `SimulatedCluster`.
    """
    from testbed.cluster.control.virtual import run_virtual  # late: it imports servers and clients

    def run(scenario: Callable[[Any], Awaitable[T]], *, seed: int = 0, **options: Any) -> T:
        folder = tmp_path / uuid.uuid4().hex  # one for each run: a simulated broker has files as well
        return run_virtual(scenario, folder, seed=seed, **options)

    return run


@pytest.fixture
def rlab_verdict() -> DeliveryVerdict:
    """Counts the messages of this test, which records them here."""
    return DeliveryVerdict()


@pytest.fixture
def member(
    rlab_cluster: RemoteCluster, rlab_topic: str, rlab_group: str, rlab_verdict: DeliveryVerdict
) -> Callable[..., AbstractAsyncContextManager[Any]]:
    """A consumer of the group that runs while a block runs.

    `async with member(name, listener=None, **options) as consumer`: the options are those of `PushConsumer`. Without a
    listener its messages are recorded in `rlab_verdict`, by their bodies. Its session is short and it begins with the
    first message, so a test need not wait.
    """
    from client import ConsumeFrom, PushConsumer  # late: most runs of pytest need no client

    async def record(messages: Any) -> None:
        for message in messages:
            rlab_verdict.receive(message.body)

    @asynccontextmanager
    async def run(name: str, listener: Any = None, **options: Any) -> AsyncIterator[Any]:
        settings: dict[str, Any] = {
            "session_timeout_s": 2.0,
            "rebalance_interval_s": 1.0,
            "consume_from": ConsumeFrom.FIRST_OFFSET,
        }
        consumer = PushConsumer(rlab_cluster.name_server, rlab_group, instance_name=name, **(settings | options))
        await consumer.subscribe(rlab_topic, listener or record)
        async with consumer:
            yield consumer

    return run


@pytest.fixture
def send(rlab_cluster: RemoteCluster, rlab_topic: str, rlab_verdict: DeliveryVerdict) -> Callable[..., Awaitable[None]]:
    """Sends a number of messages with the bodies b"0", b"1", ..., and records them in `rlab_verdict`.

    `await send(n, **options)`: the options are those of `Producer`.
    """
    from client import Message, Producer  # late, as above

    async def numbered(n: int, **options: Any) -> None:
        settings: dict[str, Any] = {"timeout_s": 2.0, "instance_name": None}
        async with Producer(rlab_cluster.name_server, **(settings | options)) as producer:
            for number in range(n):
                body = rlab_verdict.sending(b"%d" % number)
                await producer.send(Message(rlab_topic, body))
                rlab_verdict.acknowledge(body)

    return numbered


# --- around each test ------------------------------------------------------------------------------------------------


def _cluster_of(item: pytest.Item) -> RemoteCluster | None:
    cluster = getattr(item, "funcargs", {}).get("rlab_cluster")
    return cluster if isinstance(cluster, RemoteCluster) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the report of its cluster to the report of a test that failed."""
    report = yield
    cluster = _cluster_of(item)
    if report.failed and call.when == "call" and cluster is not None:
        verdict = item.funcargs.get("rlab_verdict")  # type: ignore[attr-defined]  # it is a function's item
        text = _tried(lambda: _report_lines(cluster.blocking.report()))
        report.sections.append(("rlab", f"verdict: {verdict}\n{text}" if verdict else text))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Heal after each test and kill the consumers that it added, so that the next one finds the cluster whole."""
    cluster = _cluster_of(item)
    try:
        return (yield)
    finally:
        if cluster is not None:
            _tried(cluster.blocking.kill_consumers)
            _tried(cluster.blocking.heal)


def _tried(call: Callable[[], T]) -> T | str:
    try:
        return call()
    except (ControlError, OSError, ValueError) as error:
        return f"the control plane did not answer: {error}"


def _report_lines(report: dict[str, Any]) -> str:
    lines = ["last rebalances:"]
    lines += [
        f"  {each['group']}: {each['kind']} {each['detail']} {each['client']}: {plural(each['moves'], 'move')} in "
        f"{each['took_ms']:g} ms"
        for each in report["rebalances"]
    ]
    lines.append(f"active faults: {', '.join(json.dumps(each['fault']) for each in report['active']) or 'none'}")
    for each in report["anomalies"]:
        lines.append(f"{each['rule']} {each['group']}: {each['text']}")
        lines += [f"    {event}" for event in each["witness"]]
    return "\n".join(lines)
