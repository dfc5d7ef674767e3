"""The HTTP shell of a server or tool: an aiohttp application that listens while a block runs."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from model.errors import ConfigError
from remoting.address import format_address, parse_address

_SHUTDOWN_S = 1.0


@asynccontextmanager
async def serve_http(
    app: web.Application, listen: str, what: str, *, cancels: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Serve an application while the block runs.

    `what` continues "cannot" in the error, for instance "serve metrics". With `cancels`, a handler is cancelled when
    its client goes away. With `tls` it is HTTPS.

    Yields:
        The `host:port` that it listens on, with the real port.

    Raises:
        ConfigError: the address cannot be listened on.

    Cancellation: the port is released.
    """
    host, port = parse_address(listen)
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=_SHUTDOWN_S, handle_signals=False, handler_cancellation=cancels
    )
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port, ssl_context=tls).start()
        except OSError as error:
            raise ConfigError(
                f"cannot {what} on {listen} ({error.strerror or error}): is another process using the port? "
                "Choose another one, or 0 for any free port"
            ) from error
        yield format_address(host, runner.addresses[0][1])
    finally:
        await runner.cleanup()
