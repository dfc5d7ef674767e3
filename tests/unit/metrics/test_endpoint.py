from __future__ import annotations

import aiohttp
import pytest
import uvloop
from prometheus_client import CollectorRegistry

from metrics.endpoint import serve_metrics
from model.errors import ConfigError

pytestmark = pytest.mark.tcp


def test_a_server_that_is_not_ready_says_why() -> None:
    reasons = ["the disk is full", ""]

    async def main() -> list[tuple[int, str]]:
        answers = []
        async with (
            serve_metrics("127.0.0.1:0", CollectorRegistry(), lambda: reasons.pop(0)) as address,
            aiohttp.ClientSession() as session,
        ):
            for path in ("/ready", "/ready", "/live", "/nothing"):
                async with session.get(f"http://{address}{path}") as answer:
                    answers.append((answer.status, (await answer.text()).strip()))
        return answers

    first, second, live, nothing = uvloop.run(main())
    assert (first, second) == ((503, "not ready: the disk is full"), (200, "ready"))
    assert (live, nothing[0]) == ((200, "live"), 404)


def test_a_port_that_is_taken_is_named() -> None:
    async def main() -> None:
        async with serve_metrics("127.0.0.1:0", CollectorRegistry()) as taken:
            with pytest.raises(ConfigError, match=f"cannot serve metrics on {taken}"):
                async with serve_metrics(taken, CollectorRegistry()):
                    raise AssertionError("not reached")

    uvloop.run(main())
