"""A cluster for tests, as fixtures of pytest: it breaks when a test says, and barriers say when it is whole again.

    async def test_billing_survives(rlab_cluster, rlab_topic, rlab_group):
        ...
        with rlab_cluster.drop("NOTIFY_CONSUMER_IDS_CHANGED", client="c2"):
            ...
        await rlab_cluster.balanced(rlab_group)

The cluster is a process, `rlab cluster --control 0`, and this module talks HTTP to it. It imports nothing of the
project, so it may stand beside packages of any name. docs/testing.md has recipes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import pytest

T = TypeVar("T")
Took = TypeVar("Took")
_RLAB = (sys.executable, "-P", "-m", "rlab")
_NOT_IN_TIME = 504
_HTTP_S = 60.0
_STOP_S = 20.0
_MAX_NAME = 40


class ControlError(Exception):
    """The control plane refused a request; the text says why."""


class NotReached(AssertionError):
    """A barrier was not reached in time; the text says what was missing."""


class FaultVerbs(ABC):
    """Faults of connections, by the names and with the columns of docs/testing.md."""

    @abstractmethod
    def begin(self, document: dict[str, Any]) -> dict[str, Any]:
        """Begin a fault; returns its id, its cause, and to how many connections it was done at once."""

    @abstractmethod
    def end(self, fault: int) -> None:
        """End one fault. Idempotent."""

    @abstractmethod
    def faults(self) -> list[dict[str, Any]]:
        """The active faults."""

    def fault(self, do: str, **columns: Any) -> Fault:
        """Begin a fault, with the columns of docs/testing.md; it ends with the block of `with`, or by `heal`."""
        return Fault(self, self.begin({"do": do, **columns}))

    def drop(self, code: str = "", **columns: Any) -> Fault:
        """Lose the requests of a code, or everything."""
        return self.fault("drop", code=code, **columns)

    def delay(self, by_s: float, code: str = "", **columns: Any) -> Fault:
        """Delay the requests of a code, or everything."""
        return self.fault("delay", by_s=by_s, code=code, **columns)

    def duplicate(self, code: str = "", **columns: Any) -> Fault:
        """Send or handle the requests of a code twice, or everything."""
        return self.fault("duplicate", code=code, **columns)

    def cut(self, code: str = "", **columns: Any) -> Fault:
        """Reset connections now, or whenever a request of a code passes."""
        return self.fault("cut", code=code, **columns)

    def refuse(self, **columns: Any) -> Fault:
        """Reset connections, and each new one."""
        return self.fault("refuse", **columns)

    def freeze(self, client: str, **columns: Any) -> Fault:
        """Read nothing from a client and send it nothing, as if it hung."""
        return self.fault("pause", client=client, **columns)

    def half_open(self, **columns: Any) -> Fault:
        """End connections at one end; the other end does not learn of it."""
        return self.fault("half_open", **columns)

    def slow_reader(self, rate: float, **columns: Any) -> Fault:
        """Send at most so many bytes a second."""
        return self.fault("slow_reader", rate=rate, **columns)


class Barriers(ABC, Generic[Took]):
    """Each waits until something is so of a group, and has as its result the seconds that it took.

    Raises:
        NotReached: not in time; the text says what was missing.
    """

    @abstractmethod
    def _wait(self, group: str, barrier: str, timeout_s: float, given: dict[str, Any]) -> Took:
        """Wait for one."""

    def balanced(self, group: str, *, members: int | None = None, timeout_s: float = 10.0) -> Took:
        """Wait until every queue has the owner that it should have, among so many members."""
        return self._wait(group, "stable", timeout_s, {} if members is None else {"members": members})

    def owns(self, group: str, client: str, queues: int | None = None, *, timeout_s: float = 10.0) -> Took:
        """Wait until a member owns so many queues, or any."""
        chosen = {} if queues is None else {"queues": queues}
        return self._wait(group, "owns", timeout_s, {"client": client, **chosen})

    def consumed(self, group: str, *, timeout_s: float = 10.0) -> Took:
        """Wait until a group has committed all that is stored now."""
        return self._wait(group, "consumed", timeout_s, {})

    def gone(self, group: str, client: str, *, timeout_s: float = 30.0) -> Took:
        """Wait until a member is none any more, and owns nothing."""
        return self._wait(group, "gone", timeout_s, {"client": client})

    def passes(self, group: str, n: int = 1, *, timeout_s: float = 30.0) -> Took:
        """Wait until each member that makes passes has made so many."""
        return self._wait(group, "passes", timeout_s, {"n": n})


class Cluster(FaultVerbs, Barriers[Awaitable[float]]):
    """A running cluster, through its control plane.

    Barriers are coroutines. A test that is no coroutine calls them by `blocking`: `cluster.blocking.balanced("g")`.

    Attributes:
        name_server: its `host:port`, for clients.
        control, token: where its control plane is.
    """

    def __init__(self, control: str, token: str, name_server: str = "") -> None:
        self.control, self.token = control, token
        self.name_server = name_server or self.ask("GET", "/v1/processes")["name_server"]
        self.blocking = Blocking(self)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None, timeout_s: float = 0.0) -> dict[str, Any]:
        """Send one request to the control plane; returns its answer. Raises: ControlError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = Request(f"http://{self.control}{path}", data, headers, method=method)
        try:
            with urlopen(request, timeout=timeout_s + _HTTP_S) as answer:
                document = json.load(answer)
        except HTTPError as error:
            document = json.load(error)
            if error.code != _NOT_IN_TIME:
                raise ControlError(document["error"]) from None
        return dict(document)

    def begin(self, document: dict[str, Any]) -> dict[str, Any]:
        """See `FaultVerbs`. Raises: ControlError."""
        return self.ask("POST", "/v1/faults", document)

    def end(self, fault: int) -> None:
        """See `FaultVerbs`. Raises: ControlError."""
        self.ask("DELETE", f"/v1/faults/{fault}")

    def faults(self) -> list[dict[str, Any]]:
        """See `FaultVerbs`. Raises: ControlError."""
        return list(self.ask("GET", "/v1/faults")["active"])

    def heal(self) -> None:
        """End all faults, and start and resume every server."""
        self.ask("POST", "/v1/heal")

    # --- processes ---------------------------------------------------------------------------------------------------

    def act(self, name: str, verb: str) -> None:
        """Do something to a broker or name server: kill, pause, resume, start, stop, restart."""
        self.ask("POST", f"/v1/processes/{quote(name, safe='')}/{verb}")

    @contextmanager
    def killed(self, name: str) -> Iterator[None]:
        """Kill a server; it is started again at the end of the block."""
        self.act(name, "kill")
        try:
            yield
        finally:
            self.act(name, "start")

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Pause a server, as if it hung; it goes on at the end of the block."""
        self.act(name, "pause")
        try:
            yield
        finally:
            self.act(name, "resume")

    def kill(self, name: str) -> None:
        """Kill a server, or a consumer of `add_consumer`."""
        self.act(name, "kill")

    def start(self, name: str) -> None:
        """Start a server that was killed or stopped."""
        self.act(name, "start")

    def restart(self, name: str) -> None:
        """Stop a server, and start it again on its data."""
        self.act(name, "restart")

    def add_consumer(self, group: str, topic: str) -> str:
        """Start a consumer in a process of its own, which takes messages and does nothing; returns that process."""
        return str(self.ask("POST", "/v1/consumers", {"group": group, "topic": topic})["process"])

    # --- what is there -----------------------------------------------------------------------------------------------

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic with so many queues on each broker, or give one so many."""
        self.ask("POST", "/v1/topics", {"topic": topic, "queues": queues})

    def group(self, group: str) -> dict[str, Any]:
        """A group: its members, version, lag, and of each queue owner, target and lag."""
        return self.ask("GET", f"/v1/groups/{quote(group, safe='')}")

    def report(self, group: str = "") -> dict[str, Any]:
        """The last rebalances, what the checker of traces found, and the active faults."""
        return self.ask("GET", f"/v1/report?{urlencode({'group': group} if group else {})}")

    def _wait(self, group: str, barrier: str, timeout_s: float, given: dict[str, Any]) -> Awaitable[float]:
        return asyncio.to_thread(self.blocking._wait, group, barrier, timeout_s, given)


class Blocking(Barriers[float]):
    """The barriers of a cluster, for tests that are no coroutines."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def _wait(self, group: str, barrier: str, timeout_s: float, given: dict[str, Any]) -> float:
        query = urlencode({"timeout_s": timeout_s, **given})
        path = f"/v1/groups/{quote(group, safe='')}/wait/{barrier}?{query}"
        return took_s(self._cluster.ask("GET", path, timeout_s=timeout_s), group, barrier, timeout_s)


def took_s(answer: dict[str, Any], group: str, barrier: str, timeout_s: float) -> float:
    """How long a barrier took, by the answer to its request.

    Raises:
        NotReached: it was not reached.
    """
    if not answer["ok"]:
        lines = "".join(f"\n  {each}" for each in answer["missing"])
        raise NotReached(f"{barrier} of {group} was not reached within {timeout_s:g} s:{lines}")
    return float(answer["took_s"])


class Fault:
    """A fault that has begun; as a context manager it is healed at the end of the block.

    Attributes:
        cause: its id in the trace.
        at_once: to how many connections it was done when it began.
    """

    def __init__(self, cluster: FaultVerbs, document: dict[str, Any]) -> None:
        self._cluster = cluster
        self._id = document["id"]
        self.cause: str = document["cause"]
        self.at_once: int = document["done"]

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_error: object) -> None:
        self.heal()

    def heal(self) -> None:
        """End it. Idempotent."""
        self._cluster.end(self._id)

    @property
    def is_active(self) -> bool:
        """Whether it is not over yet; one with `n` or `for_s` ends by itself."""
        return any(each["id"] == self._id for each in self._cluster.faults())

    @property
    def done(self) -> int:
        """How often it was done, while it is active."""
        return next((each["done"] for each in self._cluster.faults() if each["id"] == self._id), 0)


class Verdict:
    """What a test sent and got: which messages were acknowledged to it and never came, and which came twice."""

    def __init__(self) -> None:
        self.sent: Counter[Any] = Counter()
        self.acknowledged: Counter[Any] = Counter()
        self.received: Counter[Any] = Counter()

    def sending(self, message: Any) -> Any:
        """Note a message before it is sent; returns it."""
        self.sent[message] += 1
        return message

    def acknowledge(self, message: Any) -> None:
        """Note that its send has returned."""
        self.acknowledged[message] += 1

    def receive(self, message: Any) -> None:
        """Note that a listener got it."""
        self.received[message] += 1

    @property
    def lost(self) -> list[Any]:
        """Messages that were acknowledged, and that nobody got."""
        return [each for each in self.acknowledged if not self.received[each]]

    @property
    def twice(self) -> list[Any]:
        """Messages that came more often than they were sent."""
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
def rlab_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster of this session, in processes of its own; each worker of pytest-xdist has one.

    With RLAB_FAULT_CONTROL and RLAB_FAULT_TOKEN it is the one that runs there.
    """
    control, token = os.environ.get("RLAB_FAULT_CONTROL"), os.environ.get("RLAB_FAULT_TOKEN")
    if control and token:
        yield Cluster(control, token)
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
        yield Cluster(started["control"], started["token"], started["address"])
    finally:
        process.terminate()
        process.communicate(timeout=_STOP_S)


def _fresh(request: pytest.FixtureRequest) -> str:
    # Names of tests may have letters of any language (PEP 3131), and those of topics and groups ASCII alone.
    name = re.sub(r"[^\w-]+", "-", request.node.name, flags=re.ASCII)[:_MAX_NAME].strip("-")
    return f"{name}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def rlab_topic(rlab_cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A topic of this test alone, with four queues on each broker."""
    topic = _fresh(request)
    rlab_cluster.create_topic(topic)
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
    virtual = import_module("rlab.testbed.cluster.control.virtual")  # not before a test asks for it

    def run(scenario: Callable[[Any], Awaitable[T]], *, seed: int = 0, **options: Any) -> T:
        folder = tmp_path / uuid.uuid4().hex  # one for each run: a simulated broker has files as well
        told: T = virtual.run_virtual(scenario, folder, seed=seed, **options)
        return told

    return run


@pytest.fixture
def rlab_verdict() -> Verdict:
    """What this test sent and got, as far as it tells."""
    return Verdict()


# --- around each test ------------------------------------------------------------------------------------------------


def _cluster_of(item: pytest.Item) -> Cluster | None:
    found = getattr(item, "funcargs", {}).get("rlab_cluster")
    return found if isinstance(found, Cluster) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a test that failed what its cluster says."""
    report = yield
    cluster = _cluster_of(item)
    if report.failed and call.when == "call" and cluster is not None:
        verdict = item.funcargs.get("rlab_verdict")  # type: ignore[attr-defined]  # it is a function's item
        text = _tried(lambda: _told(cluster.report()))
        report.sections.append(("rlab", f"verdict: {verdict}\n{text}" if verdict else text))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Heal after each test, so that the next one finds the cluster whole."""
    cluster = _cluster_of(item)
    try:
        return (yield)
    finally:
        if cluster is not None:
            _tried(cluster.heal)


def _tried(call: Callable[[], T]) -> T | str:
    try:
        return call()
    except (ControlError, OSError, ValueError) as error:
        return f"the control plane did not answer: {error}"


def _told(report: dict[str, Any]) -> str:
    lines = ["last rebalances:"]
    lines += [
        f"  {each['group']}: {each['kind']} {each['detail']} {each['client']}: {each['moves']} moves in "
        f"{each['took_ms']:g} ms"
        for each in report["rebalances"]
    ]
    lines.append(f"active faults: {', '.join(json.dumps(each['fault']) for each in report['active']) or 'none'}")
    for each in report["anomalies"]:
        lines.append(f"{each['rule']} {each['group']}: {each['text']}")
        lines += [f"    {event}" for event in each["witness"]]
    return "\n".join(lines)
