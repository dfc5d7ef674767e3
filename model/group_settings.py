"""The settings that operators give a consumer group, which each broker keeps for its own queues. Pure.

RocketMQ: SubscriptionGroupConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.arguments import check_iterable, check_whole, short_repr
from model.errors import InvalidParameter
from model.limits import MAX_CONFIGURED_ATTEMPTS, MAX_INVISIBLE_MS, MAX_RETRY_DELAYS, MAX_RETRY_QUEUES

OWN_ATTEMPTS = -1
"""The value of `max_attempts` with which each member decides for itself."""

_KINDS = {bool: "True or False", int: "a whole number"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Settings of one group; a group that was never set has the defaults.

    Attributes:
        consume: whether its members get messages. RocketMQ: consumeEnable.
        broadcast: whether broadcasting members get messages. RocketMQ: consumeBroadcastEnable.
        retry_queues: queues of its retry topic on each broker: the number of members that share its failed messages.
            RocketMQ: retryQueueNums, where 0 drops failed messages in silence; here it is at least 1.
        max_attempts: retries of a failed message before it goes to the DLQ, for all members, in place of their own
            option; with `OWN_ATTEMPTS` the members' own options apply. RocketMQ: retryMaxTimes, which the option of a
            member overrules.
        fifo: whether its pops are in order: a queue delivers the next messages once none of it is invisible. Clients
            of RocketMQ 5 consume in order then. RocketMQ: consumeMessageOrderly.
        retry_delays_ms: delays before the first, second, ... retry of a failed message, and the last one before all
            others, where neither its listener nor the option of its consumer sets one; empty for RocketMQ's delays of
            10 s, 30 s, 1 min, ... RocketMQ: groupRetryPolicy, which only its gRPC clients use.
    """

    consume: bool = True
    broadcast: bool = True
    retry_queues: int = 1
    max_attempts: int = OWN_ATTEMPTS
    fifo: bool = False
    retry_delays_ms: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        kinds = {"consume": bool, "broadcast": bool, "retry_queues": int, "max_attempts": int, "fifo": bool}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise InvalidParameter(f"{name} must be {_KINDS[kind]}, got {short_repr(getattr(self, name))}")
        if not 1 <= self.retry_queues <= MAX_RETRY_QUEUES:
            raise InvalidParameter(
                f"retry_queues must be 1 to {MAX_RETRY_QUEUES}, got {self.retry_queues}; for no retries set "
                "max_attempts to 0, and failed messages go to the DLQ at once"
            )
        if not OWN_ATTEMPTS <= self.max_attempts <= MAX_CONFIGURED_ATTEMPTS:
            raise InvalidParameter(
                f"max_attempts must be 0 to {MAX_CONFIGURED_ATTEMPTS}, or -1 for the option of each member; "
                f"got {self.max_attempts}"
            )

        check_iterable("retry_delays_ms", self.retry_delays_ms)
        if len(self.retry_delays_ms) > MAX_RETRY_DELAYS:
            raise InvalidParameter(
                f"retry_delays_ms must be at most {MAX_RETRY_DELAYS} delays, got {len(self.retry_delays_ms)}; the last "
                "one is repeated"
            )
        for delay_ms in self.retry_delays_ms:
            check_whole("a delay of retry_delays_ms", delay_ms, 0, MAX_INVISIBLE_MS)

    def retry_delay_ms(self, attempts: int) -> int | None:
        """The delay of the next retry after this many failed attempts; None without delays of the group."""
        delays = self.retry_delays_ms
        return delays[min(max(attempts, 1), len(delays)) - 1] if delays else None

    def to_wire(self) -> list[Any]:
        """Flat form for a frame's body, without the settings of `added`."""
        return [self.consume, self.broadcast, self.retry_queues, self.max_attempts]

    @property
    def added(self) -> dict[str, Any]:
        """Header fields of the settings that are not in the body: earlier versions unpack exactly four values there."""
        return {"fifo": self.fifo, "retry_delays_ms": list(self.retry_delays_ms)}

    @classmethod
    def from_wire(cls, wire: Any, header: Mapping[str, Any]) -> GroupSettings:
        """Read the flat form and the header beside it; a broker is trusted to send well-formed ones."""
        consume, broadcast, retry_queues, max_attempts = wire
        return cls(
            consume=consume,
            broadcast=broadcast,
            retry_queues=retry_queues,
            max_attempts=max_attempts,
            fifo=header.get("fifo", False),
            retry_delays_ms=tuple(header.get("retry_delays_ms", ())),
        )

    def __str__(self) -> str:
        """The settings in words, as events and `rlab group show` have them."""
        attempts = "own" if self.max_attempts == OWN_ATTEMPTS else self.max_attempts
        delays = ",".join(f"{delay_ms / 1000:g}s" for delay_ms in self.retry_delays_ms) or "default"
        return (
            f"consume={_on(self.consume)} broadcast={_on(self.broadcast)} retry_queues={self.retry_queues} "
            f"max_attempts={attempts} fifo={_on(self.fifo)} retry_delays={delays}"
        )


DEFAULT_SETTINGS = GroupSettings()


def _on(value: bool) -> str:
    return "on" if value else "off"
