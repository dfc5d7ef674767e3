"""Refuses requests at a broker that has other replicas, before a handler sees them.

Each command declares its effect in the table of all requests (`remoting/wire/`), so that none is forgotten here:

    LOCAL      always served: it neither shows nor changes what replicas have in common
    READS      refused if this broker is not the master
    CHANGES    as well
    APPENDS    refused too while messages cannot be committed, because too few replicas are in sync or they are late

A read that takes time is checked again before its answer leaves.

Until the state with which the broker has started is committed, requests wait: they would show messages that are not.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping

import anyio

from broker.durability.replication import Replication
from model.errors import ServiceNotAvailable
from model.replica_limits import REPLICATION_TIMEOUT_S
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler, Outcome
from remoting.wire.field import Effect
from remoting.wire.schema import SCHEMA


def guard_handlers(handlers: Mapping[RequestCode, Handler], replication: Replication) -> dict[RequestCode, Handler]:
    """The handlers behind the checks of their commands' effects."""
    return {code: _guard(code, handler, replication) for code, handler in handlers.items()}


def _guard(code: RequestCode, handler: Handler, replication: Replication) -> Handler:
    effect = SCHEMA[code].effect
    assert effect is not None, f"{code.name} is served by a broker, so its schema has an effect"
    if effect is Effect.LOCAL:
        return handler
    appends, may_serve = effect is Effect.APPENDS, replication.may_serve
    if effect is Effect.READS and inspect.iscoroutinefunction(handler):
        handler = _checked_again(handler, replication)

    def serve(connection: Connection, request: Command) -> Outcome:
        # The second question because the process may have stood still since the first one in this iteration.
        if not replication.is_open or not may_serve():
            if not replication.started.is_set():
                return serve_later(connection, request)
            refusal = replication.check(appends=appends)
            if refusal is not None:
                connection.respond_error(request, refusal)
                return None
        return handler(connection, request)

    async def serve_later(connection: Connection, request: Command) -> Reply | None:
        with anyio.move_on_after(REPLICATION_TIMEOUT_S):
            await replication.started.wait()
        if not replication.started.is_set():
            raise ServiceNotAvailable("this broker has just started, and its replicas are not there yet: try again")
        outcome = None if connection.closed else serve(connection, request)
        return outcome if outcome is None or isinstance(outcome, Reply) else await outcome

    return serve


def _checked_again(read: Callable[[Connection, Command], Awaitable[Reply | None]], replication: Replication) -> Handler:
    async def read_as_master(connection: Connection, request: Command) -> Reply | None:
        reply = await read(connection, request)
        if (refusal := replication.refusal_of_parked()) is not None:
            raise refusal
        return reply

    return read_as_master
