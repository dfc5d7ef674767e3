"""The parts of a swarm that decide; whole swarms run in tests/simulation/test_swarm.py."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from model.errors import ConfigError, ConnectFailed
from testbed.swarm.members import MAX_LATE_S, Pace, Swarm, SwarmOptions
from testbed.swarm.wire import Bunch


def test_a_pace_counts_what_is_due_at_a_steady_rate() -> None:
    pace = Pace(rate=4, now=10.0)
    assert [pace.take(now) for now in (10.0, 10.1, 10.25, 10.3, 10.9)] == [1, 0, 1, 0, 2]
    assert pace.next_at == 11.0


def test_what_is_late_is_caught_up_with() -> None:
    pace = Pace(rate=8, now=0.0)
    assert pace.take(0.5) == 5


def test_after_a_long_stall_only_the_last_second_is_caught_up_with() -> None:
    pace = Pace(rate=8, now=0.0)
    pace.take(0.0)
    assert pace.take(100.0) == 8 * MAX_LATE_S + 1
    assert pace.next_at == 100.125


def options(**changes: Any) -> SwarmOptions:
    return SwarmOptions(
        **{"name_servers": "127.0.0.1:9876", "topic": "t", "group": "g", "run": 1, "prefix": "s", **changes}
    )


def test_a_body_has_room_for_the_number_of_its_message() -> None:
    assert options(body_bytes=20).body_bytes == 20
    with pytest.raises(ConfigError, match="body_bytes must be 20 to"):
        options(body_bytes=19)


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
