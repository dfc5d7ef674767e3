"""The requests of `rlab fuzz --http`, made from a seed for all HTTP ports of the project. Pure.

Most requests have one error: bytes of another character set in a header, a body that is nested too deep, a number with
thousands of digits, a path with half a character. Others are cut or garbage. Every port is sent the paths of all ports,
and refuses the paths that it does not have.

    HttpRequests(Random(), seed=7, host="127.0.0.1:9101", token="").request(0).data -> bytes
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from random import Random

PATHS = (
    *("/metrics", "/live", "/ready", "/", "/openapi.json"),
    *("/v1/processes", "/v1/processes/{}/{}", "/v1/consumers", "/v1/topics", "/v1/groups", "/v1/groups/{}"),
    *("/v1/groups/{}/wait/{}", "/v1/faults", "/v1/faults/{}", "/v1/heal", "/v1/report"),
    *("/topics", "/topics/{}", "/groups", "/groups/{}", "/groups/{}/dead-letters", "/test-cluster", "/static/{}/{}"),
    *("/api/session", "/api/cluster", "/api/stream", "/api/groups/{}", "/api/groups/{}/moves"),
    *("/api/groups/{}/dead-letters", "/api/topics/{}", "/api/messages", "/api/test-cluster", "/api/{}"),
)
"""Paths of the metrics, of the control plane and of the console; {} stands for any name."""
_NAMES = (
    *("fuzz", "orders", "stable", "owns", "gone", "passes", "broker-a", "pause", "publish", "scale", "begin-fault"),
    *(
        "console",
        "app.js",
        "..",
        "%2e%2e",
        "%ff",
        "%00",
        "%ed%a0%80",
        "a%0d%0ab",
        "x" * 300,
        "9" * 5_000,
        "-1",
        "%C3%BC",
    ),
)
_QUERIES = ("group", "topic", "queue", "offset", "key", "id", "cause", "after", "members", "queues", "n", "client")
_METHODS = ("GET", "GET", "GET", "POST", "POST", "DELETE", "HEAD", "PUT", "OPTIONS", "get", "CONNECT")
_TEXTS = (
    b"",
    b"x",
    b"\xff\xfe",
    b"\xc3\x28",
    b"a" * 5_000,
    b"1e309",
    b"nan",
    "ü".encode(),
    b"%",
    b'"',
    b"*/*;q=x",
    b"9" * 5_000,
)
_HEADERS = (
    *(b"Accept", b"Last-Event-ID", b"Origin", b"X-Console-Token", b"Cookie", b"If-Modified-Since", b"Range"),
    *(b"Content-Encoding", b"Accept-Encoding", b"Expect", b"X-Forwarded-For", b"Host", b"Authorization"),
)
_TYPES = (
    b"application/json",
    b"application/json; charset=nonsense",
    b"text/plain; charset=utf-16",
    b"\xff",
    b"a/b; ; =",
)
_FIELDS = ("group", "topic", "queues", "body", "keys", "tag", "id", "do", "for_s", "by_s", "share", "process", "action")


class HttpRequest(NamedTuple):
    """One request; if it is not `whole`, its sender ends the connection instead of waiting for an answer."""

    data: bytes
    text: str  # for the report
    whole: bool
    has_body: bool  # whether the answer may have a body


class HttpRequests:
    """Numbered requests; equal seeds give equal requests.

    Args:
        rng: is seeded again for each request.
        seed: decides every request, together with host and tokens.
        host: the value of the header Host.
        token: the token of the port, which most requests carry; "" for none.
        page_token: the token of a page of the console; "" for none.
    """

    def __init__(self, rng: Random, seed: int, host: str, token: str = "", page_token: str = "") -> None:
        self._rng = rng
        self._seed = seed
        self._host = host.encode()
        self._token = token.encode()
        self._page_token = page_token.encode()

    def request(self, number: int) -> HttpRequest:
        """The request of this number."""
        rng = self._rng
        rng.seed(f"{self._seed}/{number}")
        method, target = rng.choice(_METHODS), self._target()
        body = self._body() if method in ("POST", "PUT") or rng.random() < 0.1 else b""
        head = [f"{method} {target} HTTP/1.{rng.choice((1, 1, 1, 0))}".encode("latin-1"), *self._headers()]
        if body and rng.random() < 0.1:
            head.append(b"Transfer-Encoding: chunked")
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        else:
            head.append(b"Content-Length: %d" % len(body))
        data = b"\r\n".join(head) + b"\r\n\r\n" + body
        whole = rng.random() < 0.9
        if not whole:
            data = rng.randbytes(rng.randrange(1, 500)) if rng.random() < 0.3 else data[: rng.randrange(1, len(data))]
        return HttpRequest(data, f"{number}: {data[:200]!r}", whole, method != "HEAD")

    def _target(self) -> str:
        rng, target = self._rng, self._rng.choice(PATHS)
        while "{}" in target:
            target = target.replace("{}", rng.choice(_NAMES), 1)
        parameters = [f"{rng.choice(_QUERIES)}={rng.choice(_NAMES)}" for _ in range(rng.randrange(3))]
        parameters.append(f"timeout_s={rng.choice(('0', '0.01', 'nan', '-1', 'x', '9' * 400))}")
        if rng.random() < 0.05:
            target += rng.choice(("\x80", "//", "#", "?a=%", ";"))
        return f"{target}?{'&'.join(parameters)}"

    def _headers(self) -> list[bytes]:
        rng, headers = self._rng, [b"Host: " + self._host, b"Content-Type: " + self._rng.choice(_TYPES)]
        if self._token and rng.random() < 0.9:
            headers.append(b"Authorization: Bearer " + self._token)
        if self._page_token and rng.random() < 0.9:
            headers += [b"Origin: http://" + self._host, b"X-Console-Token: " + self._page_token]
        for _ in range(rng.randrange(3)):
            headers.append(rng.choice(_HEADERS) + b": " + rng.choice(_TEXTS))
        if rng.random() < 0.01:
            headers += [b"X-%d: 1" % n for n in range(200)]
        return headers

    def _body(self) -> bytes:
        rng = self._rng
        kind = rng.randrange(12)
        if kind == 0:
            return b"[" * 50_000
        if kind == 1:
            return b'{"queues": ' * 5_000
        if kind == 2:
            return b'{"queues": %b, "topic": "fuzz"}' % (b"9" * rng.choice((30, 5_000)))
        if kind == 3:
            return rng.randbytes(rng.randrange(1, 300))
        if kind == 4:
            return b'{"topic": "\\ud800", "group": "\\udfff", "body": "\xff"}'
        if kind == 5:
            return rng.choice((b"null", b"[]", b"NaN", b'""', b" ", b'{"for_s": Infinity}', b"x" * 70_000))
        document = {rng.choice(_FIELDS): self._anything(2) for _ in range(rng.randrange(6))}
        return json.dumps(document).encode()

    def _anything(self, depth: int) -> Any:
        rng = self._rng
        kind = rng.randrange(7 if depth else 5)
        if kind == 0:
            return rng.choice((0, 1, -1, 4, 2**31, 2**63, 2**64, -(2**63), 10**40))
        if kind == 1:
            return rng.choice((None, True, False, 0.5, -0.0, 1e308, float("nan"), float("inf")))
        if kind in (2, 3, 4):
            return rng.choice(
                ("fuzz", "", "x" * 300, "a\r\nb", "\ud800", "<b>", "delay", "drop", "pause", "%RETRY%fuzz")
            )
        inner = [self._anything(depth - 1) for _ in range(rng.randrange(4))]
        return inner if kind == 5 else {str(n): each for n, each in enumerate(inner)}
