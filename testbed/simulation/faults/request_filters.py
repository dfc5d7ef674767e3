"""Requests of one code that are lost or late, while all else on their connections goes on; and a watch of answers.

A network loses bytes and not requests, so this is done where a connection hands a command that has come to its owner:
the sender sees a request that was never answered, as when the receiver hangs in that one handler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from remoting.command import RESPONSE, Command
from remoting.connection import Connection
from testbed.simulation.kernel.loop import VirtualLoop
from testbed.simulation.kernel.network import Fault


@dataclass(slots=True, eq=False)
class _Rule:
    """One fault: `one_in` of the requests of a code from `source` or to `target`; "" is any host."""

    code: int
    source: str
    target: str
    by_s: float  # how much later they come; 0 for never
    one_in: int
    seen: int = 0

    def hits(self, command: Command, source: str, target: str) -> bool:
        if command.code != self.code or self.source not in ("", source) or self.target not in ("", target):
            return False
        self.seen += 1
        return self.seen % self.one_in == 0


class RequestFilters:
    """The filters of one loop; a context manager, which restores all connections at its end.

    `on_answer` is called with the host and the request of each answer without an error, when it leaves.
    """

    def __init__(self, loop: VirtualLoop, on_answer: Callable[[str, Command], None] | None = None) -> None:
        self._loop, self._on_answer = loop, on_answer
        self._rules: dict[_Rule, None] = {}
        self._faults: dict[Fault, None] = {}
        self._filtered: list[Connection] = []

    def add(self, code: int, *, source: str = "", target: str = "", by_s: float = 0.0, one_in: int = 1) -> Fault:
        """Lose the requests of a code, or delay them, until the fault is healed."""
        rule = _Rule(code, source, target, by_s, one_in)
        self._rules[rule] = None
        self._update()

        def heal() -> None:
            del self._rules[rule]
            self._update()

        return Fault(self._faults, f"requests {code} {source}>{target}", heal)

    def __enter__(self) -> RequestFilters:
        self._update()
        return self

    def __exit__(self, *_error: object) -> None:
        self._rules.clear()
        self._on_answer = None
        self._update()

    def _update(self) -> None:
        """Replace methods of every connection while there are rules or watched answers, and only those."""
        for connection in self._filtered:
            connection.interpose({})
        self._filtered.clear()
        has_work = bool(self._rules) or self._on_answer is not None
        self._loop.follow_protocols(self._filter if has_work else None)

    def _filter(self, protocol: asyncio.BaseProtocol) -> None:
        if not isinstance(protocol, Connection):
            return
        self._filtered.append(protocol)
        methods: dict[str, Callable[..., Any]] = {}
        if self._rules:
            methods["_handle"] = partial(self._handle, protocol)
        if self._on_answer is not None:
            methods["respond"] = partial(self._respond, protocol)
        protocol.interpose(methods)

    def _respond(self, connection: Connection, request: Command, *answer: Any, **options: Any) -> None:
        code = answer[2] if len(answer) > 2 else options.get("code", 0)
        if not code and not connection.closed and self._on_answer is not None:
            transport: Any = connection._transport
            self._on_answer(transport.get_extra_info("sockname")[0], request)
        type(connection).respond(connection, request, *answer, **options)

    def _handle(self, connection: Connection, command: Command) -> object:
        shipped = type(connection)._handle
        if command.flags != RESPONSE and (rule := self._rule_of(connection, command)):
            if rule.by_s:
                self._loop.call_later(rule.by_s, shipped, connection, command)
            return None
        return shipped(connection, command)

    def _rule_of(self, connection: Connection, command: Command) -> _Rule | None:
        transport: Any = connection._transport
        own_address, peer_address = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        return next((rule for rule in self._rules if rule.hits(command, peer_address[0], own_address[0])), None)
