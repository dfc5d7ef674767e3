"""Real loopback TCP passes the checks that the simulated network passes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest

from tests.tcp.transport_conformance import CHECKS

pytestmark = pytest.mark.tcp


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_real_tcp_does_what_the_simulated_network_does(check: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        with anyio.fail_after(30):
            await check()

    with asyncio.Runner() as runner:
        runner.run(main())
