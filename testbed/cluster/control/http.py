"""The HTTP server of the control plane. The application and its OpenAPI page are made from one table of routes.

Every request needs `Authorization: Bearer TOKEN`, except the two that describe the API: a page of another site that a
user has open can send requests here, and does not know the token.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from html import escape
from typing import Any, NamedTuple

from aiohttp import web

from metrics.http import json_body, read_bearer, serve_http
from model.errors import ConfigError, InvalidParameter, NetworkError, RlabError
from model.limits import MAX_ORDER_BYTES
from remoting.faults.fault import VERBS
from remoting.security.key import equal_secrets
from testbed.cluster.control.plane import BARRIERS, PROCESS_VERBS, Document, Plane

NOT_IN_TIME = 504
"""Status of a barrier that was not reached; the body lists the conditions that are not met."""
_FAULT = "do, client, group, peer, code, rpc, direction, share, one_in, n, for_s, by_s, jitter_s, rate, end, at"


class Route(NamedTuple):
    """One row of the table: a request, its description, and the function that answers it."""

    method: str
    path: str
    does: str
    answer: Callable[[Plane, web.Request], Awaitable[Document]]
    query: tuple[str, ...] = ()


async def _processes(plane: Plane, request: web.Request) -> Document:
    return plane.processes()


async def _act(plane: Plane, request: web.Request) -> Document:
    return await plane.act(request.match_info["name"], request.match_info["verb"])


async def _consumer(plane: Plane, request: web.Request) -> Document:
    return await plane.add_consumer(await json_body(request))


async def _topics(plane: Plane, request: web.Request) -> Document:
    return await plane.topics()


async def _create(plane: Plane, request: web.Request) -> Document:
    return await plane.create_topic(await json_body(request))


async def _create_group(plane: Plane, request: web.Request) -> Document:
    return await plane.create_group(await json_body(request))


async def _groups(plane: Plane, request: web.Request) -> Document:
    return await plane.groups()


async def _group(plane: Plane, request: web.Request) -> Document:
    return await plane.group(request.match_info["group"])


async def _wait(plane: Plane, request: web.Request) -> Document:
    return await plane.wait(request.match_info["group"], request.match_info["barrier"], request.query)


async def _faults(plane: Plane, request: web.Request) -> Document:
    return await plane.faults()


async def _begin(plane: Plane, request: web.Request) -> Document:
    return await plane.begin_fault(await json_body(request))


async def _heal(plane: Plane, request: web.Request) -> Document:
    number = request.match_info.get("id")
    if number is not None and not re.fullmatch(r"[0-9]{1,18}", number):
        raise InvalidParameter("the id of a fault is a number")
    return await plane.heal(None if number is None else int(number))


async def _report(plane: Plane, request: web.Request) -> Document:
    return await plane.report(request.query.get("group"))


ROUTES = (
    Route("GET", "/v1/processes", "Every process, its state, and the actions that it accepts.", _processes),
    Route("POST", "/v1/processes/{name}/{verb}", f"Act on a process: {', '.join(PROCESS_VERBS)}.", _act),
    Route("POST", "/v1/consumers", "Start a consumer in a process: group, topic.", _consumer),
    Route("GET", "/v1/topics", "The names of all topics.", _topics),
    Route("POST", "/v1/topics", "Create a topic, or scale it: topic, queues on each broker.", _create),
    Route("GET", "/v1/groups", "Every group.", _groups),
    Route(
        "POST",
        "/v1/groups",
        "Create a group that begins with the first message of topic: group, topic, retry_delays_s, max_attempts, fifo.",
        _create_group,
    ),
    Route("GET", "/v1/groups/{group}", "A group: members, version; for each queue owner, target, lag.", _group),
    Route(
        "GET",
        "/v1/groups/{group}/wait/{barrier}",
        f"Wait for a barrier: {', '.join(BARRIERS)}. After the time limit: {NOT_IN_TIME} and the unmet conditions.",
        _wait,
        ("timeout_s", "members", "client", "queues", "n", "since_ms"),
    ),
    Route("GET", "/v1/faults", "The active faults.", _faults),
    Route("POST", "/v1/faults", f"Begin a fault: {', '.join(VERBS)}. Columns: {_FAULT}.", _begin),
    Route("DELETE", "/v1/faults/{id}", "Heal one fault.", _heal),
    Route("POST", "/v1/heal", "Heal all faults; start and resume every server.", _heal),
    Route("GET", "/v1/report", "The last rebalances, the checker's findings, active faults.", _report, ("group",)),
)
"""All routes."""


@asynccontextmanager
async def serve_control(plane: Plane, listen: str, version: str) -> AsyncIterator[tuple[str, str]]:
    """Serve a control plane while the block runs; yields its `host:port` and its token.

    Raises:
        ConfigError: the address cannot be listened on.

    Cancellation: the port is released.
    """
    token = secrets.token_urlsafe(24)

    @web.middleware
    async def guarded(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if request.path.startswith("/v1/") and not equal_secrets(read_bearer(request), token):
            return _answer({"error": "send Authorization: Bearer TOKEN, as rlab cluster --json prints it"}, 401)
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _answer({"error": error.reason}, error.status)
        except (InvalidParameter, ConfigError) as error:
            return _answer({"error": str(error)}, 400)
        except NetworkError as error:
            return _answer({"error": str(error)}, 502)
        except RlabError as error:
            return _answer({"error": str(error)}, 409)

    def handler_of(route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            document = await route.answer(plane, request)
            return _answer(document, 200 if document.get("ok", True) else NOT_IN_TIME)

        return handle

    async def described(request: web.Request) -> web.Response:
        return _answer(openapi(version))

    async def page(request: web.Request) -> web.Response:
        rows = "".join(
            f"<tr><td>{each.method}</td><td><code>{escape(each.path)}</code></td><td>{escape(each.does)}</td></tr>"
            for each in ROUTES
        )
        text = f'<!doctype html><title>rlab control</title><p><a href="/openapi.json">openapi.json</a></p><table>{rows}'
        return web.Response(text=text, content_type="text/html")

    app = web.Application(middlewares=[guarded], client_max_size=MAX_ORDER_BYTES)
    app.add_routes([web.route(each.method, each.path, handler_of(each)) for each in ROUTES])
    app.add_routes([web.get("/", page), web.get("/openapi.json", described)])
    async with serve_http(app, listen, "serve the control plane") as address:
        yield address, token


def openapi(version: str) -> Document:
    """The OpenAPI document of all routes."""
    paths: dict[str, dict[str, Any]] = {}
    for each in ROUTES:
        names = [part[1:-1] for part in each.path.split("/") if part.startswith("{")]
        schema = {"type": "string"}
        parameters = [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]
        parameters += [{"name": name, "in": "query", "required": False, "schema": schema} for name in each.query]
        paths.setdefault(each.path, {})[each.method.lower()] = {
            "summary": each.does,
            "parameters": parameters,
            "responses": {"200": {"description": "done"}, "400": {"description": "refused; `error` says why"}},
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "rlab control plane", "version": version},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
    }


def _answer(document: Document, status: int = 200) -> web.Response:
    return web.Response(text=json.dumps(document) + "\n", status=status, content_type="application/json")
