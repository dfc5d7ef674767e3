from __future__ import annotations

from pathlib import Path

import pytest

from testbed.bench.peers.systems.redis_peer import Redis
from testbed.bench.peers.systems.registry import missing
from tests.unit.testbed.bench.peers.systems.systems_at_work import send_and_consume

pytestmark = [pytest.mark.process, pytest.mark.tcp]


@pytest.mark.asyncio
async def test_what_is_sent_is_consumed_and_acknowledged_in_batches(tmp_path: Path) -> None:
    if lacks := missing(Redis()):
        pytest.skip(f"{', '.join(lacks)} is missing: make peers")
    async with Redis().serve(tmp_path) as address:
        await send_and_consume(Redis(), address, batch=32)
