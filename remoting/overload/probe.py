"""Probe: pings a server that does not answer, and closes the connection if no sign of life arrives.

A router that has forgotten a connection drops its packets and closes nothing. The system notices that on most networks
(`keepalive.py`), but not behind a proxy that confirms for the server, and not on a system without these options. So a
request that was not answered in time is followed by a ping on the same connection: GET_SERVER_STATE, which every server
answers, also with a refusal. Any byte that arrives after the ping is a sign of life, and so is progress with unsent
bytes, because an answer may wait behind a large frame. A server that hangs loses its clients in this way, too; they
return when it answers again.

    0 s a send leaves 3 s it fails, the ping leaves 6 s nothing arrived: the connection is closed

A held pull is not overdue while its server may hold it, and a connection whose requests are answered gets no ping.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from model.errors import RequestTimeout, RlabError
from model.limits import PING_TIMEOUT_S
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.session import Waiter

logger = logging.getLogger(__name__)


class ProbedConnection(Protocol):
    """A connection to a server, as `remoting/connection.py` has it."""

    peer: str
    reads: int
    on_overdue: Callable[[], None] | None

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the system has not accepted yet."""
        ...

    @property
    def in_flight(self) -> int:
        """Requests that are not answered yet."""
        ...

    def request_for(
        self, waiter: Waiter, code: int, header: Mapping[str, Any], body: bytes | None, timeout_s: float
    ) -> None:
        """Send a request."""
        ...

    def drop_unsent(self, reason: str) -> None:
        """Close it at once."""
        ...


class Probe:
    """The pings of one connection of a client; it is the `Waiter` of their answers."""

    def __init__(self, connection: ProbedConnection) -> None:
        self._connection = connection
        self._is_under_way = False
        self._reads = self._unsent_bytes = 0  # at the time of the ping
        connection.on_overdue = self.overdue

    def overdue(self) -> None:
        """Send a ping, unless one is outstanding: a request was not answered in time."""
        if self._is_under_way:
            return
        connection = self._connection
        self._reads, self._unsent_bytes = connection.reads, connection.unsent_bytes
        try:
            connection.request_for(self, RequestCode.GET_SERVER_STATE, {}, None, PING_TIMEOUT_S)
        except RlabError:
            return  # too many requests are outstanding; the next overdue one calls this again
        self._is_under_way = True

    def done(self) -> bool:
        """See `Waiter`."""
        return False

    def set_result(self, result: Command, /) -> None:
        """See `Waiter`: any answer shows that the server runs."""
        self._is_under_way = False

    def set_exception(self, exception: Exception, /) -> None:
        """See `Waiter`: no answer in time, or the end of the connection."""
        self._is_under_way = False
        connection = self._connection
        silent = connection.reads == self._reads and connection.unsent_bytes >= self._unsent_bytes
        if silent and isinstance(exception, RequestTimeout):
            logger.warning(
                "leaving the connection to %s: requests were not answered in time, and then nothing arrived for %g s; "
                "%d requests were unanswered",
                *(connection.peer, PING_TIMEOUT_S, connection.in_flight),
            )
            connection.drop_unsent("it was closed because nothing arrived over it, not even the answer to a ping")
