"""One run of `rlab fuzz --http`: sends requests over several connections, one after the other, and judges each answer.

A whole request must be answered, and not with an internal error. A cut request may be answered, too.
"""

from __future__ import annotations

import itertools
import os
import ssl
from collections.abc import Mapping
from random import Random

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from model.errors import ConnectFailed, ConnectionLost, ProtocolError
from remoting.address import parse_address
from remoting.security.login import read_http_key
from remoting.security.tls.trust import client_context
from testbed.fuzz.http import HttpRequest, HttpRequests
from testbed.fuzz.run import MAX_FOUND, FuzzPlan, FuzzReport, run_lanes

_SILENCE_S = 20.0
"""Longest time for an answer: barriers of the control plane wait 10 s if a request has no other time."""
_MAX_HEAD_BYTES = 64 * 1024
_MAX_ANSWER_BYTES = 64 * 2**20
_PAUSED = ("502", "503", "504")
"""Answers that are not a fault of the port: the cluster behind it does not answer, or a limit or a time is reached."""
CONTROL_TOKEN = "RLAB_FAULT_TOKEN"
"""Environment variable: the token of a control plane, as its announcement prints it."""


async def fuzz_http(
    address: str, plan: FuzzPlan, report: FuzzReport | None = None, *, environment: Mapping[str, str] = os.environ
) -> FuzzReport:
    """Fuzz one HTTP port; a given report is filled in during the run, and returned.

    Raises:
        ConnectFailed: the port does not listen, or stopped listening.
        ConfigError: there is no process with the id of the plan, or its usage may not be read.

    Cancellation: harmless.
    """
    key = read_http_key(environment)
    token = environment.get(CONTROL_TOKEN, "") if key is None else key.text()
    run = _Run(address, plan, token, await _page_token(address, token), report or FuzzReport(plan.seed))
    await run_lanes(plan, run.report, run.send_requests)
    await _ask(address, HttpRequest(_get("/live", address), "the last request", whole=True, has_body=True))
    return run.report


def _get(path: str, address: str, token: str = "") -> bytes:
    token_line = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"GET {path} HTTP/1.1\r\nHost: {address}\r\n{token_line}\r\n".encode()


async def _page_token(address: str, token: str) -> str:
    """The token of the pages of a console that allows changes; "" for other ports."""
    request = HttpRequest(_get("/api/session", address, token), "the first request", whole=True, has_body=True)
    _, text = await _ask(address, request)
    _, separator, after_token = text.partition('"token":"')
    return after_token.partition('"')[0] if separator else ""


async def _ask(address: str, request: HttpRequest) -> tuple[str, str]:
    async with await _connect(address) as stream:
        await stream.send(request.data)
        with anyio.fail_after(_SILENCE_S):
            status, _, text = await _answer(BufferedByteReceiveStream(stream), request)
    return status, text


async def _connect(address: str) -> ByteStream:
    host, port = parse_address(address)
    tls: ssl.SSLContext | None = client_context()
    try:
        if tls is None:
            return await anyio.connect_tcp(host, port)
        return await anyio.connect_tcp(host, port, ssl_context=tls, tls_standard_compatible=False)
    except OSError as error:
        raise ConnectFailed(f"cannot connect to {address} ({error})") from error


async def _answer(stream: BufferedByteReceiveStream, request: HttpRequest) -> tuple[str, bool, str]:
    """Read an answer; returns its status, whether the connection stays open, and its text.

    Raises:
        anyio.EndOfStream: the connection was closed.
        ProtocolError: the data is not an HTTP answer.
    """
    head = (await stream.receive_until(b"\r\n\r\n", _MAX_HEAD_BYTES)).decode("latin-1")
    version, _, status_text = head.partition(" ")
    if not version.startswith("HTTP/1.") or not status_text[:3].isdecimal():
        raise ProtocolError(f"the answer begins with {head[:40]!r}")
    status, lines = status_text[:3], [line.lower() for line in head.split("\r\n")[1:]]
    if status == "100":
        return await _answer(stream, request)
    goes_on = version == "HTTP/1.1" and "connection: close" not in lines
    if not request.has_body or status in ("204", "304"):
        return status, goes_on, ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "content-length":
            if int(value) > _MAX_ANSWER_BYTES:
                raise ProtocolError(f"an answer of {value} bytes")
            return status, goes_on, (await stream.receive_exactly(int(value))).decode("utf-8", "replace")
    return status, False, ""  # a stream of updates never ends, so the connection is closed


class _Run:
    """One run: its connections share the numbers of requests, the report, and the bounds."""

    def __init__(self, address: str, plan: FuzzPlan, token: str, page_token: str, report: FuzzReport) -> None:
        self._address = address
        self._plan = plan
        self._requests = HttpRequests(Random(), plan.seed, address, token, page_token)
        self._numbers = itertools.count(plan.skip)
        self._ends_at = anyio.current_time() + plan.seconds
        self.report = report

    def _should_continue(self) -> bool:
        report = self.report
        in_time = anyio.current_time() < self._ends_at
        return len(report.found) < MAX_FOUND and report.commands < self._plan.commands and in_time

    async def send_requests(self) -> None:
        """Send over one connection after the other until a bound is reached."""
        while self._should_continue():
            async with await _connect(self._address) as stream:
                self.report.connections += 1
                answers = BufferedByteReceiveStream(stream)
                while self._should_continue() and await self._exchange(stream, answers):
                    pass

    async def _exchange(self, stream: ByteStream, answers: BufferedByteReceiveStream) -> bool:
        """Send a request and judge its answer; returns whether the connection can be used further."""
        request = self._requests.request(next(self._numbers))
        self.report.commands += 1
        try:
            await stream.send(request.data)
            if not request.whole:
                return False
            with anyio.fail_after(_SILENCE_S):
                status, goes_on, _ = await _answer(answers, request)
        except TimeoutError:
            return self._found(request, f"is not answered within {_SILENCE_S:g} s")
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
            return self._found(request, "is answered by the end of the connection")
        except (anyio.DelimiterNotFound, ProtocolError, ConnectionLost) as error:
            return self._found(request, f"is answered with other data than HTTP: {error}")
        self.report.codes[status] += 1
        if status.startswith("5") and status not in _PAUSED:
            return self._found(request, f"is answered with {status}")
        return goes_on

    def _found(self, request: HttpRequest, problem: str) -> bool:
        self.report.found.append(f"request {request.text} {problem}")
        return False
