"""Controls a running test cluster through its control plane, for tests in Python. It needs only the standard library.

The pytest plugin imports this module in every run of pytest, so it imports little of the project.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from testbed.cluster.control.verbs import Barriers, BlockingFault, FaultToBegin, FaultVerbs, took_s

_NOT_IN_TIME = 504
_HTTP_S = 60.0


class ControlError(Exception):
    """The control plane refused a request; the text says why."""


class RemoteCluster(FaultVerbs[FaultToBegin], Barriers[Awaitable[float]]):
    """A running cluster, through its control plane, for coroutines: each call runs in a thread, and is awaited.

    Each raises ControlError if the cluster refuses the request. A call that is cancelled is carried out nevertheless.

    Attributes:
        blocking: the same for tests that are not coroutines, with the same names: `cluster.blocking.balanced("g")`.
        name_server: its `host:port`, for clients.
        control, token: the `host:port` and the token of its control plane.
    """

    def __init__(self, control: str, token: str, name_server: str = "") -> None:
        self.blocking = BlockingCluster(control, token, name_server)
        self.control, self.token = control, token
        self.name_server = self.blocking.name_server

    # --- faults of connections ---------------------------------------------------------------------------------------

    def fault(self, do: str, **columns: Any) -> FaultToBegin:
        """See `FaultVerbs`; the fault begins when it is awaited, or entered by `async with`."""
        return FaultToBegin(self, {"do": do, **columns})

    async def begin(self, document: dict[str, Any]) -> dict[str, Any]:
        """See `FaultRequests`. Raises: ControlError. Cancellation: it may have begun."""
        return await asyncio.to_thread(self.blocking.begin, document)

    async def end(self, fault: int) -> None:
        """See `FaultRequests`. Raises: ControlError. Cancellation: it ends nevertheless."""
        await asyncio.to_thread(self.blocking.end, fault)

    async def faults(self) -> list[dict[str, Any]]:
        """The active faults. Raises: ControlError. Cancellation: harmless."""
        return await asyncio.to_thread(self.blocking.faults)

    async def heal(self) -> None:
        """End all faults, and start and resume every server. Cancellation: it is done nevertheless."""
        await asyncio.to_thread(self.blocking.heal)

    # --- processes ---------------------------------------------------------------------------------------------------

    async def act(self, name: str, verb: str) -> None:
        """Act on a process: kill, pause, resume, start, stop, restart. Cancellation: it is done nevertheless."""
        await asyncio.to_thread(self.blocking.act, name, verb)

    async def kill(self, name: str) -> None:
        """Kill a server, or a consumer of `add_consumer`. Cancellation: see `act`."""
        await self.act(name, "kill")

    async def start(self, name: str) -> None:
        """Start a server that was killed or stopped. Cancellation: see `act`."""
        await self.act(name, "start")

    async def restart(self, name: str) -> None:
        """Stop a server, and start it again on its data. Cancellation: see `act`."""
        await self.act(name, "restart")

    @asynccontextmanager
    async def killed(self, name: str) -> AsyncIterator[None]:
        """Kill a server, and start it again at the end of the block."""
        await self.act(name, "kill")
        try:
            yield
        finally:
            await self.act(name, "start")

    @asynccontextmanager
    async def paused(self, name: str) -> AsyncIterator[None]:
        """Pause a server, as if it hung, and resume it at the end of the block."""
        await self.act(name, "pause")
        try:
            yield
        finally:
            await self.act(name, "resume")

    async def add_consumer(self, group: str, topic: str) -> str:
        """Start a consumer in its own process, which receives and discards messages; returns the process's name.

        Cancellation: it is started nevertheless.
        """
        return await asyncio.to_thread(self.blocking.add_consumer, group, topic)

    # --- topics and groups -------------------------------------------------------------------------------------------

    async def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic with this number of queues on each broker, or scale the topic to it.

        Cancellation: it is created nevertheless.
        """
        await asyncio.to_thread(self.blocking.create_topic, topic, queues)

    async def create_group(self, group: str, topic: str, **settings: Any) -> None:
        """Create a group that begins with the first message of a topic.

        A group that exists begins there again, and its members too. `settings` are `retry_delays_s`, the pauses before
        the retries of a failed message, as a list; `max_attempts`, the retries before it is a dead letter; and `fifo`.

        Cancellation: it is created nevertheless.
        """
        await asyncio.to_thread(self.blocking.create_group, group, topic, **settings)

    async def group(self, group: str) -> dict[str, Any]:
        """A group: its members, version, lag, and for each queue its owner, target and lag. Cancellation: harmless."""
        return await asyncio.to_thread(self.blocking.group, group)

    async def report(self, group: str = "") -> dict[str, Any]:
        """The last rebalances, the findings of the trace checker, and the active faults. Cancellation: harmless."""
        return await asyncio.to_thread(self.blocking.report, group)

    def _wait(self, group: str, barrier: str, timeout_s: float, parameters: dict[str, Any]) -> Awaitable[float]:
        return asyncio.to_thread(self.blocking._wait, group, barrier, timeout_s, parameters)


class BlockingCluster(FaultVerbs[BlockingFault], Barriers[float]):
    """A running cluster, through its control plane, for tests that are not coroutines.

    Each call raises ControlError if the cluster refuses the request.

    Attributes:
        name_server: its `host:port`, for clients.
        control, token: the `host:port` and the token of its control plane.
    """

    def __init__(self, control: str, token: str, name_server: str = "") -> None:
        self.control, self.token = control, token
        self._consumers: list[str] = []
        self.name_server = name_server or self.ask("GET", "/v1/processes")["name_server"]

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None, timeout_s: float = 0.0) -> dict[str, Any]:
        """Send one request to the control plane, and return its answer. Raises: ControlError."""
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

    # --- faults of connections ---------------------------------------------------------------------------------------

    def fault(self, do: str, **columns: Any) -> BlockingFault:
        """See `FaultVerbs`; the fault has begun when this returns."""
        return BlockingFault(self, {"do": do, **columns})

    def begin(self, document: dict[str, Any]) -> dict[str, Any]:
        """See `BlockingFaultRequests`. Raises: ControlError."""
        return self.ask("POST", "/v1/faults", document)

    def end(self, fault: int) -> None:
        """See `BlockingFaultRequests`. Raises: ControlError."""
        self.ask("DELETE", f"/v1/faults/{fault}")

    def faults(self) -> list[dict[str, Any]]:
        """The active faults. Raises: ControlError."""
        return list(self.ask("GET", "/v1/faults")["active"])

    def heal(self) -> None:
        """End all faults, and start and resume every server."""
        self.ask("POST", "/v1/heal")

    # --- processes ---------------------------------------------------------------------------------------------------

    def act(self, name: str, verb: str) -> None:
        """Act on a process: kill, pause, resume, start, stop, restart."""
        self.ask("POST", f"/v1/processes/{quote(name, safe='')}/{verb}")

    def kill(self, name: str) -> None:
        """Kill a server, or a consumer of `add_consumer`."""
        self.act(name, "kill")

    def start(self, name: str) -> None:
        """Start a server that was killed or stopped."""
        self.act(name, "start")

    def restart(self, name: str) -> None:
        """Stop a server, and start it again on its data."""
        self.act(name, "restart")

    @contextmanager
    def killed(self, name: str) -> Iterator[None]:
        """Kill a server, and start it again at the end of the block."""
        self.act(name, "kill")
        try:
            yield
        finally:
            self.act(name, "start")

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Pause a server, as if it hung, and resume it at the end of the block."""
        self.act(name, "pause")
        try:
            yield
        finally:
            self.act(name, "resume")

    def add_consumer(self, group: str, topic: str) -> str:
        """Start a consumer in its own process, which receives and discards messages. Returns the process's name."""
        name = str(self.ask("POST", "/v1/consumers", {"group": group, "topic": topic})["process"])
        self._consumers.append(name)
        return name

    def kill_consumers(self) -> None:
        """Kill the consumers of `add_consumer` that run; the plugin does this after each test."""
        names, self._consumers = set(self._consumers), []
        if names:
            for each in self.ask("GET", "/v1/processes")["processes"]:
                if each["name"] in names and "kill" in each["actions"]:
                    self.kill(each["name"])

    # --- topics and groups -------------------------------------------------------------------------------------------

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic with this number of queues on each broker, or scale the topic to it."""
        self.ask("POST", "/v1/topics", {"topic": topic, "queues": queues})

    def create_group(self, group: str, topic: str, **settings: Any) -> None:
        """Create a group that begins with the first message of a topic; see `RemoteCluster.create_group`."""
        self.ask("POST", "/v1/groups", {"group": group, "topic": topic, **settings})

    def group(self, group: str) -> dict[str, Any]:
        """A group: its members, version, lag, and for each queue its owner, target and lag."""
        return self.ask("GET", f"/v1/groups/{quote(group, safe='')}")

    def report(self, group: str = "") -> dict[str, Any]:
        """The last rebalances, the findings of the trace checker, and the active faults."""
        return self.ask("GET", f"/v1/report?{urlencode({'group': group} if group else {})}")

    def _wait(self, group: str, barrier: str, timeout_s: float, parameters: dict[str, Any]) -> float:
        query = urlencode({"timeout_s": timeout_s, **parameters})
        path = f"/v1/groups/{quote(group, safe='')}/wait/{barrier}?{query}"
        return took_s(self.ask("GET", path, timeout_s=timeout_s), group, barrier, timeout_s)
