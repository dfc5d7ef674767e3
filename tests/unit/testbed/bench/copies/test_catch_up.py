"""Real replicas are in `test_every.py`."""

from __future__ import annotations

from typing import Any, cast

import msgpack
import pytest

from process.children import Child
from remoting.client import RemotingClient
from remoting.command import RESPONSE, Command
from remoting.request_code import RequestCode
from testbed.bench.copies.catch_up import LogEnds, against

pytestmark = pytest.mark.asyncio


class FakeClient:
    """Answers with the next position each time."""

    def __init__(self, *positions: int) -> None:
        self._positions = iter(positions)

    async def request(self, address: str, code: RequestCode, header: dict[str, Any]) -> Command:
        assert (address, code) == ("h:1", RequestCode.GET_REPLICAS)
        return Command(RESPONSE, 0, 1, {}, msgpack.packb({"end_position": next(self._positions)}))


async def test_a_replica_is_asked_until_its_log_reaches_the_position() -> None:
    child = Child("replica", cast(Any, None))
    child.address = "h:1"
    positions = LogEnds(cast(RemotingClient, cast(Any, FakeClient(0, 700, 1_200))))
    assert await positions.wait(child, 1_000) == 1_200


async def test_a_figure_has_its_baseline() -> None:
    result = against("copies-loaded-sends", 80.0, 100.0, "messages/s")
    assert (result.value, result.baseline_value, result.ratio) == (80.0, 100.0, 0.8)
