"""Delay levels: how long a message waits before it is delivered. RocketMQ: MessageStoreConfig.messageDelayLevel."""

from __future__ import annotations

DELAY_LEVELS_MS = tuple(
    seconds * 1000
    for seconds in (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
)
"""Levels 1 to 18: 1 s to 2 h."""

FIRST_RETRY_LEVEL = 3
"""The first retry of a failed message waits for this level (10 s), each further one for the next."""

MAX_DELAY_MS = 40 * 24 * 3600 * 1000
"""Longest delay that may be asked for in milliseconds."""


def delay_of_level(level: int) -> int:
    """Milliseconds of a delay level; levels above 18 count as 18, and 0 is no delay."""
    return DELAY_LEVELS_MS[min(level, len(DELAY_LEVELS_MS)) - 1] if level > 0 else 0


def retry_delay_ms(times_delivered: int) -> int:
    """How long a message waits that failed after so many earlier failures. RocketMQ: level 3 + reconsumeTimes."""
    return delay_of_level(FIRST_RETRY_LEVEL + times_delivered)
