"""Controls a running test cluster through its control plane, for tests in Python. It needs only the standard library.

The pytest plugin imports this module in every run of pytest, so it imports little of the project.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from testbed.cluster.control.verbs import Barriers, FaultVerbs, took_s

_NOT_IN_TIME = 504
_HTTP_S = 60.0


class ControlError(Exception):
    """The control plane refused a request; the text says why."""


class RemoteCluster(FaultVerbs, Barriers[Awaitable[float]]):
    """A running cluster, through its control plane.

    Barriers are coroutines. A synchronous test calls them through `blocking`: `cluster.blocking.balanced("g")`.

    Attributes:
        name_server: its `host:port`, for clients.
        control, token: the `host:port` and the token of its control plane.
    """

    def __init__(self, control: str, token: str, name_server: str = "") -> None:
        self.control, self.token = control, token
        self.name_server = name_server or self.ask("GET", "/v1/processes")["name_server"]
        self.blocking = BlockingBarriers(self)

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
        """Act on a broker or name server: kill, pause, resume, start, stop, restart."""
        self.ask("POST", f"/v1/processes/{quote(name, safe='')}/{verb}")

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
        """Start a consumer in its own process, which receives and discards messages. Returns the process's name."""
        return str(self.ask("POST", "/v1/consumers", {"group": group, "topic": topic})["process"])

    # --- topics and groups -------------------------------------------------------------------------------------------

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic with this number of queues on each broker, or scale the topic to it."""
        self.ask("POST", "/v1/topics", {"topic": topic, "queues": queues})

    def group(self, group: str) -> dict[str, Any]:
        """A group: its members, version, lag, and for each queue its owner, target and lag."""
        return self.ask("GET", f"/v1/groups/{quote(group, safe='')}")

    def report(self, group: str = "") -> dict[str, Any]:
        """The last rebalances, the findings of the trace checker, and the active faults."""
        return self.ask("GET", f"/v1/report?{urlencode({'group': group} if group else {})}")

    def _wait(self, group: str, barrier: str, timeout_s: float, given: dict[str, Any]) -> Awaitable[float]:
        return asyncio.to_thread(self.blocking._wait, group, barrier, timeout_s, given)


class BlockingBarriers(Barriers[float]):
    """The barriers of a cluster, for synchronous tests."""

    def __init__(self, cluster: RemoteCluster) -> None:
        self._cluster = cluster

    def _wait(self, group: str, barrier: str, timeout_s: float, given: dict[str, Any]) -> float:
        query = urlencode({"timeout_s": timeout_s, **given})
        path = f"/v1/groups/{quote(group, safe='')}/wait/{barrier}?{query}"
        return took_s(self._cluster.ask("GET", path, timeout_s=timeout_s), group, barrier, timeout_s)
