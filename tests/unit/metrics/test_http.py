"""What any HTTP port answers to what no client would send, and to those without its key."""

from __future__ import annotations

import json
import logging
from base64 import b64encode

import aiohttp
import anyio
import pytest
import uvloop
from aiohttp import web

from metrics.http import json_body, serve_http
from model.errors import InvalidParameter
from model.limits import LINES_AT_ONCE
from remoting.security.key import Key

pytestmark = pytest.mark.tcp
KEY = Key("metrics", b"\x07" * 32)


async def echo(request: web.Request) -> web.Response:
    try:
        return web.Response(text=json.dumps(await json_body(request)))
    except InvalidParameter as error:
        return web.Response(text=str(error), status=400)


async def fails(request: web.Request) -> web.Response:
    raise ZeroDivisionError("a secret of ours")


def asked(requests: list[bytes], key: Key | None = None) -> list[tuple[int, str]]:
    """Send each request over a connection of its own; returns status and text of the answers."""
    answers: list[tuple[int, str]] = []

    async def main() -> None:
        app = web.Application(client_max_size=20_000)
        app.add_routes([web.post("/echo", echo), web.get("/fails", fails), web.get("/live", fails)])
        async with serve_http(app, "127.0.0.1:0", "serve", key=key) as address:
            for request in requests:
                host, _, port = address.partition(":")
                async with await anyio.connect_tcp(host, int(port)) as stream:
                    await stream.send(request)
                    answer = b""
                    with anyio.fail_after(5):
                        while b"\r\n\r\n" not in answer or len(answer) < _whole(answer):
                            answer += await stream.receive()
                head, _, body = answer.partition(b"\r\n\r\n")
                answers.append((int(head.split()[1]), body.decode()))

    uvloop.run(main())
    return answers


def _whole(answer: bytes) -> int:
    head, _, _ = answer.lower().partition(b"\r\n\r\n")
    return len(head) + 4 + int(head.partition(b"content-length: ")[2].split(b"\r")[0])


def post(body: bytes, *headers: bytes) -> bytes:
    lines = (b"POST /echo HTTP/1.1", b"Host: a", b"Content-Length: %d" % len(body), *headers)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[" * 10_000, "nested too deep"),
        (b'{"a":' + b"[" * 10_000, "nested too deep"),
        (b'{"n": ' + b"9" * 5_000 + b"}", "not JSON in UTF-8: Exceeds the limit"),
        (b'{"n": NaN}', "NaN is not a number in JSON"),
        (b'{"name": "\\ud800"}', "not JSON in UTF-8"),
        ('{"name": "ü"}'.encode("latin-1"), "not JSON in UTF-8"),
        ('{"name": "u"}'.encode("utf-16"), "not JSON in UTF-8"),
        (b"", "not JSON in UTF-8"),
        (b"[]", "must be a JSON object"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value,
)
def test_a_body_that_is_not_a_json_object_is_refused_with_the_reason(
    body: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    [(status, text)] = asked([post(body, b"Content-Type: application/json; charset=nonsense")])
    assert status == 400
    assert why in text
    assert "Traceback" not in caplog.text


def test_a_body_is_utf_8_whatever_charset_is_said_and_nothing_is_inflated() -> None:
    body = '{"name": "ü"}'.encode()
    ours, packed, long = asked(
        [
            post(body, b"Content-Type: application/json; charset=nonsense"),
            post(body, b"Content-Encoding: gzip"),
            post(b'"' + b"a" * 20_000 + b'"'),
        ]
    )
    assert ours == packed == (200, '{"name": "\\u00fc"}')
    assert long[0] == 413


def test_a_handler_that_fails_gets_an_answer_without_details_and_so_many_log_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = asked([b"GET /fails HTTP/1.1\r\nHost: a\r\n\r\n"] * (LINES_AT_ONCE + 5))
    assert set(answers) == {(500, "internal error; see the server's log\n")}
    assert caplog.text.count("Traceback") == LINES_AT_ONCE


def test_what_is_not_a_http_is_one_line_of_the_log_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        answers = asked([b"\x00\x01garbage\r\n\r\n", b"GET\xff / HTTP/1.1\r\n\r\n"] * LINES_AT_ONCE)
    assert {status for status, _ in answers} == {400}
    assert "Traceback" not in caplog.text
    assert len(caplog.records) <= LINES_AT_ONCE


def test_a_client_that_hangs_up_within_a_body_leaves_no_traceback_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        reading, ended = anyio.Event(), anyio.Event()

        async def read(request: web.Request) -> web.Response:
            reading.set()
            try:
                return web.json_response(await json_body(request))
            finally:
                ended.set()

        app = web.Application()
        app.add_routes([web.post("/read", read)])
        async with serve_http(app, "127.0.0.1:0", "serve") as address:
            host, _, port = address.partition(":")
            async with await anyio.connect_tcp(host, int(port)) as stream:
                await stream.send(b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
                await reading.wait()
            await ended.wait()

    uvloop.run(main())
    assert caplog.records == []


def test_a_port_with_a_key_serves_who_proves_it_and_others_only_whether_it_lives() -> None:
    def get(path: str, authorization: bytes = b"") -> bytes:
        return b"GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n" % (path.encode(), authorization)

    secret = KEY.text().encode()
    bearer, basic = b"Authorization: Bearer %s\r\n", b"Authorization: Basic %s\r\n"
    wrong = [
        b"",
        bearer % b"x",
        bearer % "ü".encode(),
        basic % b"====",
        basic % b64encode(b"metrics:x"),
        basic % b64encode(b"\xff:\xfe"),
        b"Authorization: %s\r\n" % secret,
    ]
    answers = asked([get("/fails", each) for each in wrong], KEY)
    assert {status for status, _ in answers} == {401}
    [(no_text, why)] = asked([get("/live", bearer % b"\xff")], KEY)
    assert (no_text, why) == (400, "the head of a request must be UTF-8\n")
    right = [get("/nothing", bearer % secret), get("/nothing", basic % b64encode(secret)), get("/live")]
    assert [status for status, _ in asked(right, KEY)] == [404, 404, 500]


def test_a_browser_is_asked_for_the_key() -> None:
    async def main() -> str:
        async with (
            serve_http(web.Application(), "127.0.0.1:0", "serve", key=KEY) as address,
            aiohttp.ClientSession() as session,
            session.get(f"http://{address}/") as answer,
        ):
            return answer.headers["WWW-Authenticate"]

    assert uvloop.run(main()).startswith("Basic ")
