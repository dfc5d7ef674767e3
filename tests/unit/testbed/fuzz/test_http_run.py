"""`rlab fuzz --http` finds what is planted in an HTTP port: internal errors, silence, lost connections, no HTTP."""

from __future__ import annotations

import anyio
import pytest
import uvloop
from aiohttp import web
from anyio.abc import SocketStream

from metrics.http import serve_http
from testbed.fuzz.http_run import fuzz_http
from testbed.fuzz.run import FuzzPlan, FuzzReport

pytestmark = pytest.mark.tcp
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def fuzzed(answer: bytes, *, closes: bool = False) -> FuzzReport:
    """Fuzz a port that gives every GET of metrics this answer, and all else a good one."""

    async def serve(stream: SocketStream) -> None:
        async with stream:
            try:
                while data := await stream.receive():
                    if not data.startswith(b"GET /metrics"):
                        await stream.send(GOOD)
                    elif closes:
                        return
                    elif answer:
                        await stream.send(answer)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass

    async def main() -> FuzzReport:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            report = await fuzz_http(f"127.0.0.1:{port}", FuzzPlan(seed=3, commands=150, connections=4), environment={})
            tasks.cancel_scope.cancel()
        await listener.aclose()
        return report

    return uvloop.run(main())


@pytest.mark.parametrize(
    ("answer", "closes", "reported"),
    [
        (b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", False, "is answered with 500"),
        (b"", True, "is answered by the end of the connection"),
        (b"", False, "is not answered within"),
        (b"garbage\r\n\r\n", False, "is answered with other data than HTTP"),
    ],
)
def test_a_fault_of_an_http_port_is_found_with_its_request(
    answer: bytes, closes: bool, reported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.fuzz.http_run._SILENCE_S", 0.2)
    report = fuzzed(answer, closes=closes)
    assert report.found
    assert all("GET /metrics" in each and reported in each for each in report.found)


def test_a_port_that_is_well_has_no_finding() -> None:
    async def main() -> FuzzReport:
        async with serve_http(web.Application(), "127.0.0.1:0", "serve") as address:
            return await fuzz_http(address, FuzzPlan(seed=3, commands=200, connections=4), environment={})

    report = uvloop.run(main())
    assert report.found == []
    assert report.commands >= 200
    assert {"400", "404"} <= set(report.codes)
