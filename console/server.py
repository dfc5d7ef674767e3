"""The aiohttp shell of the console: its pages, its documents, its streams of updates, and changes of the cluster.

GET  /, /topics, /topics/NAME, /groups, /groups/NAME, ...    the page; its script draws the view of the address
GET  /api/...                                                documents, as JSON
GET  /api/stream?group=NAME                                  updates, as server-sent events; Last-Event-ID resumes
POST /api/...                                                changes, for pages of this run of the console only
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from aiohttp import web

from console.changes import PageChanges
from console.channel import Update
from console.error_page import NOT_FOUND, error_page, wants_page
from console.guard import Guard, allowed_names
from console.lookup import dead_letters, messages
from console.overview import topic_document
from console.testbed import TestBed
from console.watcher import Subject, Watcher, to_json, watching
from metrics.http import json_body, serve_http
from model.errors import ConfigError, GroupNotExist, InvalidParameter, NetworkError, RlabError, TopicNotExist
from model.limits import MAX_CONSOLE_BODY_BYTES, MAX_CONSOLE_STREAMS
from model.response_code import ResponseCode
from pictures.assets import static_folder
from remoting.address import is_loopback, parse_address
from remoting.security.key import Key
from remoting.security.tls.certificates import ServerTls, TlsFiles
from remoting.tasks import background_tasks
from traces.why.moves import QueueMove
from traces.why.words import move_text, stage_text

_PING_S = 15.0
_RETRY_MS = 1000
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_PAGES = ("/", "/topics", "/topics/{name}", "/groups", "/groups/{name}", "/groups/{name}/dead-letters", "/test-cluster")
_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
_MAX_MOVES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """Options of a console.

    Attributes:
        allow_hosts: further names that browsers may use for it.
        tls: certificate and key; with them, pages are only served over HTTPS.
        key: a browser has to send the name and the secret of this key, for which it shows a dialog.
        test_bed: the processes of a test cluster, if their owner runs this console.
    """

    name_servers: str
    listen: str = "127.0.0.1:0"
    allow_changes: bool = False
    allow_hosts: Sequence[str] = ()
    tls: TlsFiles | None = None
    key: Key | None = None
    test_bed: TestBed | None = None


@asynccontextmanager
async def run_console(options: ConsoleOptions) -> AsyncIterator[str]:
    """Run a console while the block runs.

    Yields:
        The `host:port` that the console listens on, with the real port.

    Raises:
        ConfigError: the address or a certificate cannot be used, or changes are allowed on an address that others can
            reach.
        ConnectFailed: no name server answers.

    Cancellation: the console is stopped.
    """
    host, _ = parse_address(options.listen)
    if options.allow_changes and not is_loopback(host):
        raise ConfigError(
            f"--allow-changes on {options.listen} would let anyone who can reach it change the cluster: listen on "
            "127.0.0.1 and connect through a tunnel, for instance ssh -L"
        )
    certificates = None if options.tls is None else ServerTls(options.tls)
    epoch = secrets.token_hex(6)
    async with background_tasks() as tasks, watching(options.name_servers, epoch, tasks) as watcher:
        console = _Console(watcher, options)
        app = console.app()
        context = None if certificates is None else certificates.context
        if certificates is not None:
            tasks.start_soon(certificates.keep_current)
        async with serve_http(app, options.listen, "listen", cancels=True, tls=context, key=options.key) as address:
            scheme = "http" if options.tls is None else "https"
            console.guard = Guard(
                allowed_names(host, parse_address(address)[1], options.allow_hosts, scheme=scheme),
                secrets.token_urlsafe(24),
                allow_changes=options.allow_changes,
                scheme=scheme,
            )
            yield address


class _Console:
    """The handlers; each uses the watcher, or the brokers through its admin."""

    def __init__(self, watcher: Watcher, options: ConsoleOptions) -> None:
        self.guard = Guard((), "", allow_changes=False)
        self._watcher = watcher
        self._options = options
        self._streams = 0
        self._changes = PageChanges(watcher.admin, options.name_servers, options.test_bed)

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guarded], client_max_size=MAX_CONSOLE_BODY_BYTES + 10_000)
        app.add_routes(
            [
                *(web.get(path, self._page) for path in _PAGES),
                *(web.get(f"{path}/", self._page) for path in _PAGES[1:]),
                web.get("/static/{package}/{name}", self._static),
                web.get("/api/session", self._session),
                web.get("/api/cluster", self._cluster),
                web.get("/api/stream", self._stream, allow_head=False),
                web.get("/api/groups/{name}", self._group),
                web.get("/api/groups/{name}/moves", self._moves),
                web.get("/api/groups/{name}/dead-letters", self._dead_letters),
                web.get("/api/topics/{name}", self._topic),
                web.get("/api/messages", self._messages),
                web.get("/api/test-cluster", self._test_cluster),
                web.post("/api/{change}", self._change),
            ]
        )
        return app

    @web.middleware
    async def _guarded(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse foreign names, convert errors to answers, and add the headers that isolate a page."""
        refused = self.guard.refuses_host(request.headers.get("Host", ""))
        if refused:
            return _refusal(request, 403, refused)
        try:
            response = await handler(request)
        except web.HTTPNotFound:
            response = _refusal(request, 404, NOT_FOUND)
        except web.HTTPException as error:
            response = _refusal(request, error.status, error.reason)
        except (InvalidParameter, ConfigError) as error:
            response = _refusal(request, 400, str(error))
        except (TopicNotExist, GroupNotExist) as error:
            response = _refusal(request, 404, str(error))
        except NetworkError as error:
            response = _refusal(request, 502, str(error))
        except RlabError as error:
            # The key of this console may lack the right, because it uses its own key for requests to brokers.
            lacks_right = error.code in (ResponseCode.NO_PERMISSION, ResponseCode.NOT_AUTHENTICATED)
            response = _refusal(request, 403 if lacks_right else 409, str(error))
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    # --- pages -------------------------------------------------------------------------------------------------------

    async def _page(self, request: web.Request) -> web.Response:
        return _file("console", "index.html")

    async def _static(self, request: web.Request) -> web.Response:
        package, name = request.match_info["package"], request.match_info["name"]
        if package not in ("console", "pictures") or not name.replace(".", "").replace("_", "").isalnum():
            raise web.HTTPNotFound
        return _file(package, name)

    # --- documents ---------------------------------------------------------------------------------------------------

    async def _session(self, request: web.Request) -> web.Response:
        guard = self.guard
        return _answer(
            {
                "allow_changes": guard.allow_changes,
                "token": guard.token if guard.allow_changes else "",
                "test_cluster": self._options.test_bed is not None,
                "name_servers": self._options.name_servers,
            }
        )

    async def _cluster(self, request: web.Request) -> web.Response:
        async with self._watcher.watch(None) as subject:
            return _answer(self._watcher.cluster_document(subject))

    async def _group(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        async with self._watcher.watch(name) as subject:
            response = _answer(self._watcher.group_document(name, subject))
        response.enable_compression()
        return response

    async def _moves(self, request: web.Request) -> web.Response:
        picture = self._watcher.pictures.groups.get(request.match_info["name"])
        moves = [] if picture is None else picture.moves_of(request.query.get("cause", ""))
        response = _answer(
            {"moves": [_move(move, self._watcher.pictures.base_ms) for move in moves[:_MAX_MOVES]], "all": len(moves)}
        )
        response.enable_compression()
        return response

    async def _topic(self, request: web.Request) -> web.Response:
        return _answer(await topic_document(self._watcher.admin, request.match_info["name"]))

    async def _messages(self, request: web.Request) -> web.Response:
        return _answer(await messages(self._watcher.admin, request.query))

    async def _dead_letters(self, request: web.Request) -> web.Response:
        return _answer(await dead_letters(self._watcher.admin, request.match_info["name"]))

    async def _test_cluster(self, request: web.Request) -> web.Response:
        return _answer(await self._changes.test_cluster())

    # --- updates -----------------------------------------------------------------------------------------------------

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Send server-sent events from `Last-Event-ID` on; a page that lags too far behind gets one `reset`."""
        if self._streams >= MAX_CONSOLE_STREAMS:
            raise web.HTTPServiceUnavailable(reason="too many pages follow this console: close some")
        last_id = request.headers.get("Last-Event-ID") or request.query.get("after", "")
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        self._streams += 1
        try:
            async with self._watcher.watch(request.query.get("group")) as subject:
                await response.prepare(request)
                await response.write(f"retry: {_RETRY_MS}\n\n".encode())
                await _send_updates(response, subject, last_id)
        except ConnectionResetError:
            pass  # the page was closed
        finally:
            self._streams -= 1
        return response

    # --- changes -----------------------------------------------------------------------------------------------------

    async def _change(self, request: web.Request) -> web.Response:
        headers = request.headers
        refused = self.guard.refuses_change(
            headers.get("Host", ""), headers.get("Origin", ""), headers.get("X-Console-Token", "")
        )
        if refused:
            return _answer({"error": refused}, status=403)
        fields = await json_body(request)
        return _answer({"done": await self._changes.make(request.match_info["change"], fields)})


async def _send_updates(response: web.StreamResponse, subject: Subject, last_id: str) -> None:
    """Send new updates, then later ones as they come; a page reads at its own pace, and no update is queued for it."""
    while True:
        news = subject.changed  # race: read before the updates, so that a later update sets it
        updates = subject.channel.after(last_id)
        if updates is None:
            await response.write(b"event: reset\ndata: {}\n\n")
            return
        for update in updates:
            await response.write(_event(update))
            last_id = update.id
        with anyio.move_on_after(_PING_S) as scope:
            await news.wait()
        if scope.cancelled_caught:
            await response.write(b": ping\n\n")


def _event(update: Update) -> bytes:
    return b"id: " + update.id.encode() + b"\ndata: " + update.body + b"\n\n"


def _answer(document: dict[str, Any], *, status: int = 200) -> web.Response:
    return web.Response(body=to_json(document), status=status, content_type="application/json", charset="utf-8")


def _refusal(request: web.Request, status: int, message: str) -> web.Response:
    """An error, as a page for a browser that opens an address, and as JSON for scripts."""
    if not wants_page(request.headers.get("Accept", "")):
        return _answer({"error": message}, status=status)
    return web.Response(text=error_page(status, message), status=status, content_type="text/html", headers=_HEADERS)


def _file(package: str, name: str) -> web.Response:
    kind = _TYPES.get(f".{name.rpartition('.')[2]}")
    file = static_folder(package) / name
    if kind is None or not file.is_file():
        raise web.HTTPNotFound
    return web.Response(body=file.read_bytes(), content_type=kind, charset="utf-8")


def _move(move: QueueMove, base_ms: float) -> dict[str, Any]:
    return {
        "queue": str(move.queue),
        "owner": move.owner,
        "from": move.from_client,
        "because": move_text(move),
        "began": round(move.began_ms - base_ms, 1),
        "took_ms": round(move.took_ms, 1),
        "gap_ms": round(move.gap_ms, 1),
        "missing": [step.value for step in move.missing],
        "stages": [[stage.step.value, round(stage.took_ms, 1), stage_text(stage)] for stage in move.stages],
    }
