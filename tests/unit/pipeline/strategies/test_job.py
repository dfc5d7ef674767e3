"""What can be compared; the job itself is in `tests/spark/test_strategies_job.py`."""

from __future__ import annotations

import pytest

from model.errors import ConfigError
from pipeline.strategies.job import Comparison


def test_queues_are_spread_over_the_brokers() -> None:
    queues = Comparison(queues=25, brokers=10).queue_set
    assert (len(queues), queues.per_broker, queues.brokers[0]) == (20, 2, "broker-0000")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"scenarios": 0}, "scenarios must be at least 1, got 0"),
        ({"queues": 9}, "queues must be 10"),
        ({"strategies": ()}, "got none"),
        ({"strategies": ("AVG", "nope")}, "got nope"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(options: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Comparison(**options)  # type: ignore[arg-type]
