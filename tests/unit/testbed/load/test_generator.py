"""The parts of the load generator that decide; whole loads run in tests/simulation/test_swarm.py."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from model.errors import ConfigError, ConnectFailed
from testbed.swarm.members import Swarm, SwarmOptions
from testbed.swarm.wire import Bunch


def options(**changes: Any) -> SwarmOptions:
    return SwarmOptions(
        **{"name_servers": "127.0.0.1:9876", "topic": "t", "group": "g", "run": 1, "prefix": "s", **changes}
    )


def test_producers_need_a_rate() -> None:
    assert options(rate=0).producers == 0
    with pytest.raises(ConfigError, match="rate must be above 0, got 0"):
        options(producers=1, rate=0)


def test_consumers_that_cannot_join_for_one_reason_give_one_error() -> None:
    """Each had its own, and a group of errors passes any `except ConnectFailed`."""

    class Unanswered(Swarm):
        joins = 0

        async def join(self, name: str | None = None) -> str:
            self.joins += 1
            await checkpoint()
            if self.joins == 1:
                return "the first"
            raise ConnectFailed("no name server answers")

    async def main() -> None:
        await Unanswered(options(consumers=9), Bunch()).join_all()

    with pytest.raises(ConnectFailed, match="no name server answers"):
        anyio.run(main)
