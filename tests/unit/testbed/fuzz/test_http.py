"""The requests of `rlab fuzz --http`."""

from __future__ import annotations

import inspect
import re
from random import Random

import pytest

from console import server
from metrics import endpoint
from testbed.cluster.control.http import ROUTES
from testbed.fuzz.http import PATHS, HttpRequests


@pytest.mark.walk
def test_every_path_of_every_http_port_is_tried() -> None:
    sources = inspect.getsource(server) + inspect.getsource(endpoint)
    written = re.findall(r'(?:web\.(?:get|post)\(|    _PAGES = \(|, |\()"(/[^"]*)"', sources)
    served = {route.path for route in ROUTES} | set(written)
    assert {"/metrics", "/api/{change}", "/groups/{name}/dead-letters"} <= served
    assert {re.sub(r"{\w+}", "{}", path) for path in served} <= set(PATHS)


def test_a_number_and_a_seed_decide_a_request_whatever_was_made_before() -> None:
    def made(seed: int) -> HttpRequests:
        return HttpRequests(Random(), seed, "a:1", "token", "page")

    ordered, single = made(7), made(7)
    requests = [ordered.request(number) for number in range(50)]
    assert single.request(49) == requests[49]
    assert made(8).request(49) != requests[49]
    assert len({each.data for each in requests}) > 45


def test_requests_have_the_tokens_and_some_have_every_kind_of_bad_byte() -> None:
    requests = HttpRequests(Random(), 1, "a:1", "token", "page")
    data = b"".join(requests.request(number).data for number in range(2_000))
    for part in (
        b"Bearer token",
        b"X-Console-Token: page",
        b"\xff\xfe",
        b"[" * 10_000,
        b"9" * 5_000,
        b"charset=nonsense",
    ):
        assert part in data
