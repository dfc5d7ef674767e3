"""The orders that a daemon receives on its standard input from the process that started it: faults of its connections.

    {"do": "begin", "fault": {"do": "cut", "client": "c2"}, "cause": ""}    -> {"id": 1, "cause": "broker-a/17"}
    {"do": "heal", "id": 1}                                                 -> {"healed": 1}
    {"do": "active"}                                                        -> {"active": [{"id": 1, ...}]}
    {"do": "tell", "kind": "FAULT_BEGAN", "process": "broker-b", "done": "kill"}    -> {"cause": "broker-a/18"}

Each line is one JSON document. The daemon answers each with a line on standard output, which has the same `order`
number, and an `error` if the daemon refuses the order. The parent of a process controls it anyway, so this interface
needs no authentication, unlike a port.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from model.errors import InvalidParameter, RlabError
from model.events import EventKind
from model.limits import MAX_ORDER_BYTES
from process.output import print_json

if TYPE_CHECKING:
    from remoting.faults.hook import FaultHook


class FaultOrders(Protocol):
    """Carries out orders in a daemon; implemented in `broker/groups/faults.py` and `namesrv/faults.py`."""

    def hook(self, rng: Random) -> FaultHook:
        """Return the hook that injects faults into the daemon's connections."""

    def record(self, kind: EventKind, process: str, done: str, cause: str) -> str:
        """Record a fault of a process in the trace, and the cause that it ends; returns the id of the event."""


class Orders:
    """Answers the orders of one daemon; the fault hook is created at the first order that needs it."""

    def __init__(self, faults: FaultOrders, rng: Random) -> None:
        self._faults = faults
        self._rng = rng
        self._hook: FaultHook | None = None

    def answer(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one order.

        Raises:
            InvalidParameter: the order does not exist, or the fault is invalid.
        """
        from remoting.faults.fault import parse_fault

        do = order.get("do")
        if do == "tell":
            fault = (str(order["process"]), str(order["done"]), str(order.get("cause", "")))
            return {"cause": self._faults.record(EventKind(order["kind"]), *fault)}
        if self._hook is None:
            self._hook = self._faults.hook(self._rng)
        if do == "begin":
            active = self._hook.begin(parse_fault(order["fault"]), str(order.get("cause", "")))
            return {"id": active.number, "cause": active.cause, "done": active.done}
        if do == "heal":
            return {"healed": len(self._hook.heal(order.get("id")))}
        if do == "active":
            return {"active": self._hook.active()}
        raise InvalidParameter(f"there is no order {str(do)[:40]!r}")

    async def obey(self, fd: int = 0) -> None:
        """Answer orders until the other end of the pipe is closed. Cancellation: harmless."""
        waiting = b""
        while True:
            await anyio.wait_readable(fd)
            got = os.read(fd, MAX_ORDER_BYTES)
            if not got or len(waiting) > MAX_ORDER_BYTES:
                return
            *lines, waiting = (waiting + got).split(b"\n")
            for line in lines:
                number = None
                try:
                    order = json.loads(line)
                    number = order.get("order")
                    answer = self.answer(order)
                except (RlabError, ValueError, LookupError, TypeError, AttributeError) as error:
                    answer = {"error": str(error)}
                await anyio.lowlevel.checkpoint()  # after two turns the trace has written the recorded event
                await anyio.lowlevel.checkpoint()
                print_json({"order": number, **answer})
