"""Kills, pauses and starts the processes of `rlab cluster`, injects faults into their connections, adds consumers.

A running broker records each of these actions in the trace.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from console.testbed import TestPart
from model.errors import InvalidParameter, ServiceNotAvailable
from model.events import EventKind
from model.limits import MAX_BED_CONSUMERS
from model.names import check_group, check_topic
from process.children import MODULE, Child, Start, spawn

_POLL_S = 0.2
_SIGNALS = {"pause": signal.SIGSTOP, "go on": signal.SIGCONT}
_ACTIONS = {"running": ("kill", "pause"), "paused": ("kill", "go on"), "stopped": ("start",)}
_CONSUMER = "consumer"
_BEGINS, _ENDS = ("kill", "pause", "stop"), ("go on", "start")


class ClusterBed:
    """The processes of one cluster.

    Args:
        name_servers, brokers: the lists whose children are stopped at the end. A restarted server replaces the old
            child in its list.
        commands: name of a server -> the command that restarts it on its data and port.
        start: starts the process of a server or of a consumer.
    """

    def __init__(
        self,
        name_servers: list[Child],
        brokers: list[Child],
        commands: Mapping[str, Sequence[str]],
        start: Start = spawn,
    ) -> None:
        self._start = start
        self.consumers: list[Child] = []
        self._faults: dict[int, dict[Child, int]] = {}  # number -> servers with the fault, and its number at each
        self._begun = 0
        self._name_servers = name_servers
        self._brokers = brokers
        self._commands = commands
        self._states: dict[str, str] = {}  # states of the processes that are not running
        self._causes: dict[str, str] = {}  # of the same processes: the event that recorded the action
        self._added = 0

    # --- the view of the console -------------------------------------------------------------------------------------

    def parts(self) -> list[TestPart]:
        """The name servers, the brokers, and the consumers that were added."""
        kinds = [
            *(("name server", child) for child in self._name_servers),
            *(("broker", child) for child in self._brokers),
            *((_CONSUMER, child) for child in self.consumers),
        ]
        parts = []
        for kind, child in kinds:
            state = self._states.get(child.name, "running")
            actions = _ACTIONS[state] if kind != _CONSUMER or state != "stopped" else ()
            parts.append(TestPart(child.name, kind, state, (*actions, "stop") if state == "running" else actions))
        return parts

    def missing(self) -> str:
        """The actions that this test bed does not offer, as text for its page."""
        return (
            "Killing closes the connections of a process; pausing leaves them open, as if it hung. rlab fault has more "
            "faults of connections and requests. Topics are scaled on their own page."
        )

    # --- actions -----------------------------------------------------------------------------------------------------

    async def act(self, name: str, action: str) -> str:
        """Kill, pause, resume, start or stop a process; see `TestBed`. Cancellation: the action may have happened."""
        part = next((part for part in self.parts() if part.name == name), None)
        if part is None or action not in part.actions:
            raise InvalidParameter(f"{name[:60]!r} does not accept {action[:20]!r} now")
        child = next(child for child in (*self._servers, *self.consumers) if child.name == name)
        if action in _BEGINS:
            self._causes[name] = await self._record(EventKind.FAULT_BEGAN, child, action)
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
        if action in _ENDS:
            await self._record(EventKind.FAULT_HEALED, child, action)
        return f"{name}: {action}"

    async def _record(self, kind: EventKind, process: Child, done: str) -> str:
        """Let a broker, if possible another one, record an action on a process. Returns the event's id, or ""."""
        order = {"do": "tell", "kind": kind.value, "process": process.name, "done": done}
        if kind is EventKind.FAULT_HEALED:
            order["cause"] = self._causes.pop(process.name, "")
        running = [child for child in self._brokers if child.name not in self._states]
        for broker in sorted(running, key=lambda child: child is process):
            try:
                return str((await broker.ask(order))["cause"])
            except ServiceNotAvailable:
                continue
        return ""

    async def _start_again(self, child: Child) -> None:
        await child.process.aclose()
        started = Child(child.name, await self._start(self._commands[child.name]))
        siblings = self._brokers if child in self._brokers else self._name_servers
        siblings[siblings.index(child)] = started  # from here on the new process is stopped at the end
        await started.wait_ready()
        self._states.pop(child.name, None)

    async def add_consumer(self, group: str, topic: str) -> str:
        """Start a consumer in its own process; see `TestBed`. Cancellation: it may have been started."""
        check_group(group)
        check_topic(topic)
        if len(self.consumers) - list(self._states.values()).count("stopped") >= MAX_BED_CONSUMERS:
            raise InvalidParameter(f"there are {MAX_BED_CONSUMERS} consumers already: stop some of them")
        self._added += 1
        name = f"consumer-{self._added} of {group}"
        command = [*MODULE, "testbed.cluster.bed_consumer", self._name_servers[0].address, group, topic]
        child = Child(name, await self._start(command))
        self.consumers.append(child)
        try:
            await child.wait_ready()
        except ServiceNotAvailable:
            self.consumers.remove(child)
            raise
        return f"{name} is {child.address}"

    # --- faults of connections ---------------------------------------------------------------------------------------

    @property
    def _servers(self) -> list[Child]:
        return [*self._name_servers, *self._brokers]

    async def begin_fault(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a fault; see `TestBed`. Cancellation: some servers may have begun it."""
        fault = dict(document)
        target = fault.pop("at", "")
        # Brokers first: the first one records the fault, and its event is the cause at the other servers.
        running = [child for child in (*self._brokers, *self._name_servers) if child.name not in self._states]
        chosen = [child for child in running if target in ("", child.name)]
        if not chosen:
            raise InvalidParameter(
                f"no server {str(target)[:60]!r} runs; there are {', '.join(c.name for c in running)}"
            )
        cause, done, fault_ids = "", 0, {}
        for child in chosen:
            answer = await child.ask({"do": "begin", "fault": fault, "cause": cause})
            fault_ids[child] = answer["id"]
            cause, done = answer["cause"], done + answer["done"]
        self._begun += 1
        self._faults[self._begun] = fault_ids
        return {"id": self._begun, "cause": cause, "done": done}

    async def heal(self, number: int | None = None) -> int:
        """End one fault, or all; see `TestBed`. Cancellation: some servers may have ended it."""
        numbers = [number] if number is not None else list(self._faults)
        healed = 0
        for each in numbers:
            is_active = False
            fault_ids = self._faults.pop(each, {})
            for child, child_fault in fault_ids.items():
                if child in self._servers and child.name not in self._states:
                    is_active = (await child.ask({"do": "heal", "id": child_fault}))["healed"] > 0 or is_active
            if left := {child: child_fault for child, child_fault in fault_ids.items() if self._is_paused(child)}:
                self._faults[each] = left  # the fault stays active there, and can be healed once the process resumes
            healed += is_active
        return healed

    def _is_paused(self, child: Child) -> bool:
        return child in self._servers and self._states.get(child.name) == "paused"

    async def active_faults(self) -> list[dict[str, Any]]:
        """The active faults; see `TestBed`. Cancellation: harmless."""
        by_number: dict[int, dict[str, Any]] = {}
        for child in self._servers:
            if child.name in self._states:
                continue
            numbers = {by_child[child]: number for number, by_child in self._faults.items() if child in by_child}
            for active in (await child.ask({"do": "active"}))["active"]:
                number = numbers[active["id"]]
                of_all = by_number.setdefault(number, {**active, "id": number, "done": 0, "at": []})
                of_all["done"] += active["done"]
                of_all["at"].append(child.name)
        self._faults = {
            number: by_child
            for number, by_child in self._faults.items()
            if number in by_number or any(map(self._is_paused, by_child))
        }
        return [by_number[number] for number in sorted(by_number)]

    # --- the end -----------------------------------------------------------------------------------------------------

    async def first_end(self) -> Child:
        """Wait until a server ends by itself, without a kill or stop from here. Cancellation: harmless."""
        while True:  # processes are added and replaced, so there is no single event to wait for
            for child in self._servers:
                if child.process.returncode is not None and child.name not in self._states:
                    return child
            await anyio.sleep(_POLL_S)

    def leave_out(self, child: Child) -> bool:
        """Go on without a broker that ended by itself; it can be started again. False if none is left beside it."""
        if child not in self._brokers or all(each is child or each.name in self._states for each in self._brokers):
            return False
        self._states[child.name] = "stopped"
        return True

    async def stop(self) -> None:
        """Resume paused processes, so that they can stop, and stop the consumers."""
        for child in (*self._servers, *self.consumers):
            if self._states.get(child.name) == "paused":
                child.process.send_signal(signal.SIGCONT)
        async with anyio.create_task_group() as tasks:
            for child in self.consumers:
                tasks.start_soon(child.stop)


def restarts(brokers: Sequence[Child], commands: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The commands that restart brokers on their current ports."""
    command_of = {}
    for child in brokers:
        command = list(commands[child.name])
        command[command.index("--listen") + 1] = child.address
        command_of[child.name] = command
    return command_of
