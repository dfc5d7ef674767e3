"""The answers that wait for a write: to sends, and to requests that changed stored rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from model.errors import RlabError
from remoting.command import Command
from remoting.connection import Connection

Sends = list[tuple[Connection, Command, int | list[int]]]
"""Sends with the offset of their first message, or the offsets of all."""
WriteCallback = Callable[[RlabError | None], None]
"""Called with None, or with the error; must not raise."""
NO_HEADER: Mapping[str, Any] = {}


class Response:
    """An answer and nothing more: no table depends on it, so it may be an error although the change is stored."""

    __slots__ = ("_body", "_connection", "_header", "_request")

    def __init__(self, connection: Connection, request: Command, header: Mapping[str, Any], body: bytes | None) -> None:
        self._connection = connection
        self._request = request
        self._header = header
        self._body = body

    def __call__(self, failure: RlabError | None) -> None:
        """Answer the request with its reply, or with the error of the write."""
        answer(self._connection, self._request, failure, self._header, self._body)


def answer(
    connection: Connection,
    request: Command,
    failure: RlabError | None,
    header: Mapping[str, Any] = NO_HEADER,
    body: bytes | None = None,
) -> None:
    """Answer a request with its reply, or with the error of the write."""
    if failure is None:
        connection.respond(request, header, body)
    else:
        connection.respond_error(request, failure)


def answer_sends(sends: Sends, failure: RlabError | None) -> None:
    """Answer sends with their offsets or the error of the write; with both if they are written despite the error."""
    if failure is not None:
        for connection, request, offset in sends:
            connection.respond_error(request, failure, None if failure.definite else offset)
        return
    for connection, request, offset in sends:
        connection.respond(request, {"offset": offset})
    if sends:
        sends[-1][0].flush()  # spares the last one, mostly the only one, an event-loop iteration
