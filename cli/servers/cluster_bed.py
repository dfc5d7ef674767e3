"""The test bed of `rlab cluster --console`: kills, pauses and starts its brokers, and adds consumers to them."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence

import anyio

from cli.servers.children import MODULE, Child, spawn
from console.testbed import TestPart
from model.errors import InvalidParameter, ServiceNotAvailable
from model.limits import MAX_BED_CONSUMERS
from model.names import check_group, check_topic

_LOOK_S = 0.2
_SIGNALS = {"pause": signal.SIGSTOP, "go on": signal.SIGCONT}
_ACTIONS = {"running": ("kill", "pause"), "paused": ("kill", "go on"), "stopped": ("start",)}
_CONSUMER = "consumer"


class ClusterBed:
    """The processes of one cluster; `brokers` is the list whose children are stopped at the end.

    Args:
        name_server: its process.
        brokers: their processes; one that is started again takes its place.
        commands: by broker, that which starts it again on its data and port.
    """

    def __init__(self, name_server: Child, brokers: list[Child], commands: Mapping[str, Sequence[str]]) -> None:
        self.consumers: list[Child] = []
        self._name_server = name_server
        self._brokers = brokers
        self._commands = commands
        self._states: dict[str, str] = {}  # of those that are not running
        self._added = 0

    # --- what a console shows ----------------------------------------------------------------------------------------

    def parts(self) -> list[TestPart]:
        """The brokers, and the consumers that were added."""
        kinds = [("broker", child) for child in self._brokers] + [(_CONSUMER, child) for child in self.consumers]
        found = []
        for kind, child in kinds:
            state = self._states.get(child.name, "running")
            actions = _ACTIONS[state] if kind == "broker" or state != "stopped" else ()
            found.append(TestPart(child.name, kind, state, (*actions, "stop") if self._stops(kind, state) else actions))
        return found

    @staticmethod
    def _stops(kind: str, state: str) -> bool:
        return kind == _CONSUMER and state == "running"

    def missing(self) -> str:
        """What cannot be done from outside of a process."""
        return (
            "Killing closes the connections of a process; pausing leaves them open, as if it hung. Single connections "
            "cannot be cut and notifications cannot be dropped here, because both happen inside the processes: rlab "
            "sim does that in virtual time. Topics are scaled on their own page."
        )

    # --- what it does ------------------------------------------------------------------------------------------------

    async def act(self, name: str, action: str) -> str:
        """Kill, pause, start again or stop a process; see `TestBed`. Cancellation: it may have been done."""
        part = next((part for part in self.parts() if part.name == name), None)
        if part is None or action not in part.actions:
            raise InvalidParameter(f"{name[:60]!r} does not take {action[:20]!r} now")
        child = next(child for child in (*self._brokers, *self.consumers) if child.name == name)
        if action in _SIGNALS:
            child.process.send_signal(_SIGNALS[action])
            self._states[name] = "paused"
            if action == "go on":
                del self._states[name]
        elif action == "start":
            await self._start_again(child)
        else:
            self._states[name] = "stopped"
            if action == "kill":
                child.process.kill()
            else:
                await child.stop()
            await child.process.wait()
        return f"{name}: {action}"

    async def _start_again(self, child: Child) -> None:
        await child.process.aclose()
        started = Child(child.name, await spawn(self._commands[child.name]))
        self._brokers[self._brokers.index(child)] = started  # from now on it is stopped at the end
        await started.wait_ready()
        self._states.pop(child.name, None)

    async def add_consumer(self, group: str, topic: str) -> str:
        """Start a consumer in a process of its own; see `TestBed`. Cancellation: it may have been started."""
        check_group(group)
        check_topic(topic)
        if len(self.consumers) - list(self._states.values()).count("stopped") >= MAX_BED_CONSUMERS:
            raise InvalidParameter(f"there are {MAX_BED_CONSUMERS} consumers already: stop some of them")
        self._added += 1
        name = f"consumer-{self._added} of {group}"
        command = [*MODULE, "cli.servers.bed_consumer", self._name_server.address, group, topic]
        child = Child(name, await spawn(command))
        self.consumers.append(child)
        try:
            await child.wait_ready()
        except ServiceNotAvailable:
            self.consumers.remove(child)
            raise
        return f"{name} is {child.address}"

    # --- the end -----------------------------------------------------------------------------------------------------

    async def first_end(self) -> Child:
        """Wait until a server ends that nobody has stopped. Cancellation: harmless."""
        while True:  # processes come and go, so there is no one event to wait for
            for child in (self._name_server, *self._brokers):
                if child.process.returncode is not None and child.name not in self._states:
                    return child
            await anyio.sleep(_LOOK_S)

    async def stop(self) -> None:
        """Let paused processes go on, so that they can stop, and stop the consumers."""
        for child in (*self._brokers, *self.consumers):
            if self._states.get(child.name) == "paused":
                child.process.send_signal(signal.SIGCONT)
        async with anyio.create_task_group() as tasks:
            for child in self.consumers:
                tasks.start_soon(child.stop)


def restarts(brokers: Sequence[Child], commands: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The commands that start brokers again, with the ports that they have now."""
    found = {}
    for child in brokers:
        command = list(commands[child.name])
        command[command.index("--listen") + 1] = child.address
        found[child.name] = command
    return found
