"""The HTTP endpoint of a server: `/metrics` for Prometheus, `/live` and `/ready` for the process supervisor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from metrics.http import serve_http
from remoting.security.key import Key


def always_ready() -> str:
    """Report no reason: for a server that is ready once it listens."""
    return ""


@asynccontextmanager
async def serve_metrics(
    listen: str, registry: CollectorRegistry, not_ready: Callable[[], str] = always_ready, key: Key | None = None
) -> AsyncIterator[str]:
    """Serve the metrics of a registry over HTTP while the block runs.

    `/metrics` has the format that the client prefers: the text format of Prometheus, or OpenMetrics. `/live` answers
    200 while the event loop runs. `/ready` answers 200, or 503 and the reason that `not_ready` returns. With `key`,
    `/metrics` requires that key.

    Yields:
        The `host:port` that the endpoint listens on, with the real port.

    Raises:
        ConfigError: the server cannot listen on the address.

    Cancellation: the port is released.
    """

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    async def live(request: web.Request) -> web.Response:
        return web.Response(text="live\n")

    async def ready(request: web.Request) -> web.Response:
        reason = not_ready()
        return web.Response(text=f"not ready: {reason}\n", status=503) if reason else web.Response(text="ready\n")

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/live", live), web.get("/ready", ready)])
    async with serve_http(app, listen, "serve metrics", key=key) as address:
        yield address
