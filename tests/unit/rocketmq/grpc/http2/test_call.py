"""One call: its deadline."""

from __future__ import annotations

import pytest

from rocketmq.grpc.http2.call import GrpcCall


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("3S", 3_000),
        ("2M", 120_000),
        ("1H", 3_600_000),
        ("8999700u", 8_999),
        ("9000000n", 9),
        ("5x", None),
        ("", None),
        ("x", None),
    ],
)
def test_the_deadline_of_a_call_is_read_in_every_unit(text: str, ms: int | None) -> None:
    assert GrpcCall(1, {"grpc-timeout": text}).timeout_ms == ms
