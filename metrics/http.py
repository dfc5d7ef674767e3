"""The HTTP shell of a server or tool: an aiohttp application that listens while a block runs.

This module serves every HTTP port of the project, with the parts that all of them need: limits and deadlines of
connections (`http_slots.py`), an optional key, a size and time limit for bodies, and a bounded log. It is a
supervisor: it logs an unexpected failure of a handler with its traceback, and the client receives 500 without details.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from metrics.http_slots import HttpSlots
from model.errors import ConfigError, InvalidParameter
from model.limits import (
    ACCEPTED_AT_ONCE,
    FRAME_TIMEOUT_S,
    HTTP_IDLE_S,
    HTTP_PART_OF_DESCRIPTORS,
    MAX_HTTP_CONNECTIONS,
)
from model.log_lines import LogLines
from remoting.address import format_address, parse_address
from remoting.security.key import Key, equal_secrets
from remoting.security.tls.arrivals import TlsArrivals
from remoting.tasks import background_tasks

logger = logging.getLogger(__name__)

_ServerHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_SHUTDOWN_S = 1.0
_OPEN_PATHS = ("/live", "/ready")
"""Served without the key: process supervisors request them, and they reveal nothing about the cluster."""


@asynccontextmanager
async def serve_http(
    app: web.Application,
    listen: str,
    purpose: str,
    *,
    cancels: bool = False,
    tls: ssl.SSLContext | None = None,
    key: Key | None = None,
) -> AsyncIterator[str]:
    """Serve an application while the block runs.

    `purpose` follows "cannot" in the error message, for instance "serve metrics". With `cancels`, a handler is
    cancelled when its client disconnects. With `tls` the port serves HTTPS. With `key` a request has to contain it: as
    `Authorization: Bearer NAME:SECRET`, or with NAME and SECRET as user and password of `Basic`, for which a browser
    shows a dialog.

    Yields:
        The `host:port` that the server listens on, with the real port.

    Raises:
        ConfigError: the server cannot listen on the address.

    Cancellation: the port is released.
    """
    loop, lines = asyncio.get_running_loop(), LogLines()
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_BoundedLog(logger, loop, lines),
        shutdown_timeout=_SHUTDOWN_S,
        keepalive_timeout=HTTP_IDLE_S,
        auto_decompress=False,
        handle_signals=False,
        handler_cancellation=cancels,
    )
    slots = HttpSlots(loop, max_http_connections())
    await runner.setup()
    server = runner.server
    assert server is not None, "it is set up"
    # The checks wrap the whole application and are not a middleware, because aiohttp reads the headers before it
    # calls a middleware.
    server.request_handler = _supervised(server.request_handler, slots, key, loop, lines)
    async with background_tasks() as tasks:
        accept: Callable[[], asyncio.Protocol] = lambda: slots.accept(server())  # noqa: E731
        if tls is not None:
            accept = TlsArrivals(loop, tasks, tls, accept, lambda: slots.free).accept
        try:
            async with _listening(loop, accept, listen, purpose) as address:
                slots.address = address
                yield address
        finally:
            with anyio.CancelScope(shield=True):
                await runner.cleanup()


@asynccontextmanager
async def _listening(
    loop: asyncio.AbstractEventLoop, accept: Callable[[], asyncio.Protocol], listen: str, purpose: str
) -> AsyncIterator[str]:
    host, port = parse_address(listen)
    try:
        listener = await loop.create_server(accept, host, port, backlog=ACCEPTED_AT_ONCE)
    except OSError as error:
        raise ConfigError(
            f"cannot {purpose} on {listen} ({error.strerror or error}): is another process using the port? "
            "Choose another one, or 0 for any free port"
        ) from error
    try:
        yield format_address(host, listener.sockets[0].getsockname()[1])
    finally:
        listener.close()


def max_http_connections() -> int:
    """Return the maximum number of connections of an HTTP port: a part of the process' file descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_HTTP_CONNECTIONS
    return min(MAX_HTTP_CONNECTIONS, soft // HTTP_PART_OF_DESCRIPTORS)


async def json_body(request: web.Request) -> dict[str, Any]:
    """Read the body of a request, which has to be a JSON object in UTF-8.

    Raises:
        InvalidParameter: the body is something else.
        web.HTTPRequestTimeout: the body was not complete in time.
        web.HTTPRequestEntityTooLarge: the body is longer than the application allows.

    Cancellation: harmless.
    """
    try:
        with anyio.fail_after(FRAME_TIMEOUT_S):
            data = await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(reason=f"the body was not complete within {FRAME_TIMEOUT_S:g} s") from None
    try:
        document = json.loads(data.decode(), parse_constant=_refuse_constant)
        json.dumps(document, ensure_ascii=False).encode()  # half a surrogate pair is valid in JSON, but not valid text
    except RecursionError:
        raise InvalidParameter("the body is nested too deep") from None
    except ValueError as error:  # also for bytes that are not UTF-8, and for a number with thousands of digits
        raise InvalidParameter(f"the body is not JSON in UTF-8: {error}") from None
    if not isinstance(document, dict):
        raise InvalidParameter("the body must be a JSON object")
    return document


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def read_bearer(request: web.Request) -> str:
    """Return the token of a request, from `Authorization: Bearer TOKEN`, or an empty text."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _proves(request: web.BaseRequest, key: Key) -> bool:
    scheme, _, candidate = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            candidate = b64decode(candidate, validate=True).decode()
        except ValueError:
            return False
    elif scheme.lower() != "bearer":
        return False
    return equal_secrets(candidate.strip(), key.text())


def _supervised(
    handler: _ServerHandler, slots: HttpSlots, key: Key | None, loop: asyncio.AbstractEventLoop, lines: LogLines
) -> _ServerHandler:
    """Wrap the application's handler: count requests, check the key, and survive unexpected failures."""

    async def supervised(request: web.BaseRequest) -> web.StreamResponse:
        slots.requested(request.transport)
        if not _is_text(request):
            return web.Response(text="the head of a request must be UTF-8\n", status=400)
        if key is not None and request.path not in _OPEN_PATHS and not _proves(request, key):
            lines.warning(logger, loop.time(), "an HTTP request of %s has no valid key", request.remote)
            return web.Response(
                text="this port requires a key: send Authorization: Bearer NAME:SECRET, or Basic with both\n",
                status=401,
                headers={"WWW-Authenticate": 'Basic realm="rlab"'},
            )
        try:
            return await handler(request)
        except web.HTTPException:
            raise  # a handler's own answer
        except Exception as error:
            if isinstance(error, ConnectionError) and (request.transport is None or request.transport.is_closing()):
                # The client hung up and gets no answer. If the error were raised, aiohttp would log a traceback.
                return web.Response(status=400)
            text = "%s %s of %s failed"
            values = (request.method, str(request.rel_url), request.remote)
            lines.failure(logger, loop.time(), text, *values, error=error)
            return web.Response(text="internal error; see the server's log\n", status=500)

    return supervised


def _is_text(request: web.BaseRequest) -> bool:
    """Whether target and headers are UTF-8; aiohttp keeps other bytes as halves of surrogate pairs (not text)."""
    try:
        request.raw_path.encode()
        for _, value in request.raw_headers:
            value.decode()
    except UnicodeError:
        return False
    return True


class _BoundedLog(logging.LoggerAdapter[logging.Logger]):
    """The bounded log of aiohttp's protocol: a line for bytes that are not HTTP, a traceback for a fault of our own."""

    def __init__(self, log: logging.Logger, loop: asyncio.AbstractEventLoop, lines: LogLines) -> None:
        super().__init__(log, {})
        self._loop = loop
        self._lines = lines

    def exception(self, msg: object, *args: object, exc_info: Any = None, **more: Any) -> None:
        """Called by aiohttp."""
        now, text = self._loop.time(), str(msg)
        if isinstance(exc_info, HttpProcessingError):
            # The message may have several lines.
            why = " ".join(f"{type(exc_info).__name__}, {exc_info.message}".split())
            self._lines.info(self.logger, now, f"{text}: %s", *args, why)
        else:
            self._lines.failure(self.logger, now, text, *args, error=exc_info)
