"""A tap on the wire: every request that anybody sends, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.session import Waiter


class Sent(NamedTuple):
    """One request: when, from which host, to which host, and what."""

    time_s: float
    source: str
    target: str
    code: RequestCode
    header: dict[str, Any]
    body_bytes: int


class WireTap:
    """Requests that were sent since the tap was opened; one-way ones too."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []

    def note(self, connection: Connection, code: int, header: Mapping[str, Any], body: bytes | None = None) -> None:
        host = connection.peer.rpartition(":")[0]
        # Fields are copied: a sender may use its header again.
        self.sent.append(
            Sent(
                connection._loop.time(), connection.local_host, host, RequestCode(code), dict(header), len(body or b"")
            )
        )

    def codes(self, source: str, target: str | None = None, *, since_s: float = 0.0) -> list[str]:
        """Names of the requests of a host."""
        return [
            sent.code.name
            for sent in self.sent
            if sent.source == source and target in (None, sent.target) and sent.time_s >= since_s
        ]


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> WireTap:
    """A tap on all connections of the test."""
    tap = WireTap()
    request_for, notify = Connection.request_for, Connection.notify

    def tapped_request(self: Connection, waiter: Waiter, code: int, header: Any, *rest: Any) -> None:
        tap.note(self, code, header, rest[0])
        request_for(self, waiter, code, header, *rest)

    def tapped_notify(self: Connection, code: int, header: Any = None, *rest: Any, **named: Any) -> Any:
        tap.note(self, code, header or {})
        return notify(self, code, header or {}, *rest, **named)

    monkeypatch.setattr(Connection, "request_for", tapped_request)
    monkeypatch.setattr(Connection, "notify", tapped_notify)
    return tap
