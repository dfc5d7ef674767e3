"""Sends at a fixed rate, and their latencies from the moment at which each was meant to be sent. Pure.

A producer that waits for a slow answer sends later than it meant to, and measured from the send itself the delay of
all messages behind it would be forgotten (coordinated omission). Here message `i` of a rate is due at `i / rate` after
the start, and its latency counts from there, whatever made it late.

    rate 1000, started at 5.0 s      three messages are due at 5.0021 s, and message 2 is intended for 5.002 s
    message 2 is sent at 5.050 s and consumed at 5.051 s      latency 49 ms

A message that never came counts as later than all others, so that a percentile is infinite rather than too good.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

NS = 1_000_000_000
HELLO = 2**64 - 1
"""The number of a message that only shows that the consumer gets messages."""
_STAMP = struct.Struct(">QQ")


@dataclass(frozen=True, slots=True)
class SendTimes:
    """Messages of one rate, numbered from 0; times are nanoseconds of a clock that all processes share."""

    start_ns: int
    per_s: int
    count: int

    def due(self, now_ns: int) -> int:
        """How many should have been sent at this time."""
        if now_ns < self.start_ns:
            return 0
        return min(self.count, (now_ns - self.start_ns) * self.per_s // NS + 1)

    def intended_ns(self, number: int) -> int:
        """The intended time of the send of a message: the first nanosecond at which it is due."""
        return self.start_ns - (-number * NS // self.per_s)


def stamp_body(number: int, intended_ns: int, size: int) -> bytes:
    """The body of a message: its number, its intended time, and zeros."""
    return _STAMP.pack(number, intended_ns).ljust(size, b"\0")


def read_stamp(body: bytes) -> tuple[int, int]:
    """The number and the intended time in a body."""
    number, intended_ns = _STAMP.unpack_from(body)
    return number, intended_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Milliseconds from intended send to consumption; infinite where too many messages did not come."""

    p50: float
    p99: float
    p999: float
    missing: int


def latencies(consumed_ns: Sequence[int], expected: int) -> Latencies:
    """Summarise the latencies of the messages that came, each counted once, of so many that should have come."""
    ordered = sorted(consumed_ns)

    def at(share: float) -> float:
        position = max(0, math.ceil(share * expected) - 1)
        return ordered[position] / 1e6 if position < len(ordered) else math.inf

    return Latencies(p50=at(0.5), p99=at(0.99), p999=at(0.999), missing=max(0, expected - len(ordered)))
