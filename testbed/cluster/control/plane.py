"""The requests that tests send to a cluster: processes, topics, groups, barriers, faults, a report.

All arguments and results are JSON documents; `http.py` transports them. A barrier polls, because brokers offer no event
for most conditions; `barriers.py` decides whether a condition is met.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import anyio

from client.admin.admin import Admin
from client.admin.records import GroupInfo
from model.errors import InvalidParameter, RlabError
from model.events import Event
from model.limits import CONTROL_POLL_S, MAX_CONTROL_EVENTS, MAX_CONTROL_WAIT_S
from model.offset_reset import ResetTo
from remoting.command import short_text
from testbed.cluster.cluster_bed import ClusterBed
from testbed.cluster.control import barriers
from traces.check.check import HistoryCheck
from traces.check.reading import in_order
from traces.figures.records import Rebalance
from traces.figures.trace import TraceFigures

_DONE = {"kill": "kill", "crash": "kill", "pause": "pause", "resume": "go on", "start": "start", "stop": "stop"}
"""Verb of a process -> action of the test bed; `crash` is the word of `rlab sim` for `kill`."""
PROCESS_VERBS = (*_DONE, "restart")
BARRIERS = ("stable", "owns", "consumed", "gone", "passes")
_GROUP_SETTINGS = ("retry_delays_s", "max_attempts", "fifo")
_REBALANCES = 10

Document = dict[str, Any]


class Plane:
    """The control plane of one cluster."""

    def __init__(self, bed: ClusterBed, admin: Admin, name_server: str) -> None:
        self._bed = bed
        self._admin = admin
        self._name_server = name_server
        self._trace = admin.trace()
        self._events: deque[Event] = deque(maxlen=MAX_CONTROL_EVENTS)
        self._reading = anyio.Lock()

    # --- processes ---------------------------------------------------------------------------------------------------

    def processes(self) -> Document:
        """The name server for clients, and every process with its kind, its state, and the actions that it accepts."""
        return {"name_server": self._name_server, "processes": [part._asdict() for part in self._bed.parts()]}

    async def act(self, name: str, verb: str) -> Document:
        """Act on a process. Raises: InvalidParameter. Cancellation: the action may have happened."""
        if verb == "restart":
            await self._bed.act(name, "stop")
            await self._bed.act(name, "start")
        elif verb in _DONE:
            await self._bed.act(name, _DONE[verb])
        else:
            raise InvalidParameter(
                f"there is no verb {short_text(verb)} for a process; there are {', '.join(PROCESS_VERBS)}"
            )
        return {"done": f"{verb} {name}"}

    async def add_consumer(self, document: Mapping[str, Any]) -> Document:
        """Start a consumer in a process. Raises: InvalidParameter. Cancellation: it may have been started."""
        group, topic = _text(document, "group"), _text(document, "topic")
        name, _, client = (await self._bed.add_consumer(group, topic)).partition(" is ")
        return {"process": name, "client": client}

    # --- topics and groups -------------------------------------------------------------------------------------------

    async def topics(self) -> Document:
        """The names of all topics. Raises: RlabError. Cancellation: harmless."""
        return {"topics": list(await self._admin.topics())}

    async def create_topic(self, document: Mapping[str, Any]) -> Document:
        """Create a topic, or give one more queues. Raises: RlabError. Cancellation: some brokers may have it."""
        topic, queues = _text(document, "topic"), document.get("queues", 4)
        if not isinstance(queues, int) or isinstance(queues, bool):
            raise InvalidParameter("queues must be a whole number")
        if topic in await self._admin.topics():
            await self._admin.scale_topic(topic, read=queues, write=queues)
        else:
            await self._admin.create_topic(topic, queues)
        return {"topic": topic, "queues": queues}

    async def create_group(self, document: Mapping[str, Any]) -> Document:
        """Create a group that begins with the first message of a topic, or let one begin there again; set its settings.

        Raises: RlabError. Cancellation: some brokers may have it.
        """
        group, topic = _text(document, "group"), _text(document, "topic")
        settings = {name: value for name, value in document.items() if name not in ("group", "topic")}
        wrong = [name for name in settings if name not in _GROUP_SETTINGS]
        if wrong:
            settings_text = ", ".join(_GROUP_SETTINGS)
            raise InvalidParameter(f"a group has no setting {short_text(wrong[0])}; there are {settings_text}")
        delays_s = settings.pop("retry_delays_s", None)
        if delays_s is not None:
            settings["retry_delays_ms"] = _milliseconds("retry_delays_s", delays_s)
        if settings:
            await self._admin.set_group(group, **settings, create=True)
        await self._admin.reset_offsets(group, topic, ResetTo.earliest(), create=True)
        return {"group": group, "topic": topic}

    async def groups(self) -> Document:
        """Every group, with its number of members. Raises: RlabError. Cancellation: harmless."""
        return {"groups": [{"group": each.group, "members": each.members} for each in await self._admin.groups()]}

    async def group(self, name: str) -> Document:
        """A group with its members, and for each queue its owner, target and lag. Raises: RlabError."""
        info = await self._admin.group(name)
        return {
            "group": name,
            "version": info.version,
            "balanced": not barriers.not_stable(info),
            "lag": info.lag,
            "members": [each.client_id for each in info.members],
            "queues": [
                {
                    "queue": str(each.queue),
                    "owner": each.owner,
                    "target": list(each.targets),
                    "committed": each.committed,
                    "end": each.max_offset,
                    "lag": each.lag,
                }
                for each in info.queues
            ],
        }

    # --- barriers ----------------------------------------------------------------------------------------------------

    async def wait(self, name: str, barrier: str, parameters: Mapping[str, str]) -> Document:
        """Wait for a barrier of a group, at most `timeout_s`.

        Returns `ok`, `took_s`, and in `missing` the conditions that are not met.

        Raises:
            InvalidParameter: there is no such barrier, or an argument of it is missing or wrong.

        Cancellation: harmless.
        """
        timeout_s = _number(parameters, "timeout_s", 10.0)
        if not 0 <= timeout_s <= MAX_CONTROL_WAIT_S:
            raise InvalidParameter(f"timeout_s must be 0 to {MAX_CONTROL_WAIT_S:g}")
        began = anyio.current_time()
        look = await self._state_of(name, barrier, parameters)
        while True:
            missing = await look()
            took_s = round(anyio.current_time() - began, 3)
            if not missing or took_s >= timeout_s:
                return {"ok": not missing, "took_s": took_s, "missing": missing}
            await anyio.sleep(CONTROL_POLL_S)

    async def _state_of(self, name: str, barrier: str, parameters: Mapping[str, str]) -> Callable[[], Any]:
        client = parameters.get("client", "")
        if barrier in ("owns", "gone") and not client:
            raise InvalidParameter(f"the barrier {barrier} needs client")
        members = int(_number(parameters, "members", -1))
        queues = int(_number(parameters, "queues", -1))
        if barrier == "passes":
            n, since_ms = int(_number(parameters, "n", 1)), _number(parameters, "since_ms", time.time() * 1000)

            async def passes() -> list[str]:
                events = [event for event in await self._read() if event.t_ms >= since_ms]
                return barriers.not_passed(events, name, n)

            return passes
        if barrier == "consumed":
            ends = barriers.ends_of(await self._admin.group(name))
            return self._of_group(name, lambda group: barriers.not_consumed(group, ends))
        looks: dict[str, Callable[[GroupInfo], list[str]]] = {
            "stable": lambda group: barriers.not_stable(group, members if members >= 0 else None),
            "owns": lambda group: barriers.not_owned(group, client, queues if queues >= 0 else None),
            "gone": lambda group: barriers.not_gone(group, client),
        }
        if barrier not in looks:
            raise InvalidParameter(f"there is no barrier {short_text(barrier)}; there are {', '.join(BARRIERS)}")
        return self._of_group(name, looks[barrier])

    def _of_group(self, name: str, missing: Callable[[GroupInfo], list[str]]) -> Callable[[], Any]:
        async def look() -> list[str]:
            try:
                return missing(await self._admin.group(name))
            except RlabError as error:  # the group does not exist yet, or its broker does not answer
                return [str(error)]

        return look

    # --- faults ------------------------------------------------------------------------------------------------------

    async def begin_fault(self, document: Mapping[str, Any]) -> Document:
        """Begin a fault of live connections. Raises: InvalidParameter. Cancellation: it may have begun."""
        return await self._bed.begin_fault(document)

    async def faults(self) -> Document:
        """The active faults. Raises: ServiceNotAvailable. Cancellation: harmless."""
        return {"active": await self._bed.active_faults()}

    async def heal(self, number: int | None = None) -> Document:
        """End one fault; without a number end all, start and resume all servers. Cancellation: some may be left."""
        if number is not None:
            return {"healed": await self._bed.heal(number)}
        resumed = await self._act_on_all("go on")  # first: a paused process cannot heal a fault
        healed = await self._bed.heal()
        # Last: a replica does not start while its register is cut off.
        return {"healed": resumed + healed + await self._act_on_all("start")}

    async def _act_on_all(self, action: str) -> int:
        """Act on all processes that accept it, and return their number."""
        accepting = [part.name for part in self._bed.parts() if action in part.actions]
        for name in accepting:
            await self._bed.act(name, action)
        return len(accepting)

    # --- the trace ---------------------------------------------------------------------------------------------------

    async def _read(self) -> list[Event]:
        async with self._reading:
            self._events.extend(sorted(await self._trace.read(), key=lambda event: event.t_ms))
        return list(self._events)

    async def report(self, group: str | None = None) -> Document:
        """The last rebalances, the findings of the trace checker, and the active faults. Raises: RlabError."""
        figures, check = TraceFigures(group), HistoryCheck(only=group)
        rows = []
        for event in in_order(await self._read()):
            rows += figures.feed(event)
            check.feed(event)
        rebalances = [row for row in (*rows, *figures.finish()) if isinstance(row, Rebalance)]
        rebalances.sort(key=lambda row: row.began_ms)
        return {
            "rebalances": [_rebalance(row) for row in rebalances[-_REBALANCES:]],
            "anomalies": [
                {
                    "rule": each.rule.value,
                    "group": each.group,
                    "text": each.text,
                    "witness": [_line(event) for event in islice(each.witness, 20)],
                }
                for each in check.finish().anomalies
            ],
            "active": await self._bed.active_faults(),
        }


def _rebalance(row: Rebalance) -> Document:
    return {
        "group": row.group,
        "kind": row.kind,
        "detail": row.detail,
        "client": row.client,
        "passes": row.passes,
        "moves": row.moves,
        "took_ms": round(row.ended_ms - row.began_ms, 1),
    }


def _line(event: Event) -> str:
    queue = f" {event.topic}@{event.broker}:{event.queue_id}" if event.queue_id >= 0 else ""
    return f"{event.t_ms / 1000:.3f} {event.node} {event.kind}{queue} {event.client} {event.detail}".rstrip()


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidParameter(f"{name} is missing, or not a text")
    return value


def _milliseconds(name: str, seconds: Any) -> list[int]:
    is_list = isinstance(seconds, list | tuple)
    if not is_list or not all(type(each) in (int, float) and math.isfinite(each) for each in seconds):
        raise InvalidParameter(f"{name} must be a list of numbers, such as [1, 2.5], got {short_text(str(seconds))}")
    return [round(each * 1000) for each in seconds]


def _number(parameters: Mapping[str, str], name: str, default: float) -> float:
    try:
        number = float(parameters.get(name, default))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidParameter(f"{name} must be a number, got {short_text(parameters[name])}")
    return number
