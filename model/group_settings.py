"""The settings that operators give a consumer group, which each broker keeps for its own queues. Pure.

RocketMQ: SubscriptionGroupConfig.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from model.arguments import shown
from model.errors import InvalidParameter
from model.limits import MAX_CONFIGURED_ATTEMPTS, MAX_RETRY_QUEUES

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
    """

    consume: bool = True
    broadcast: bool = True
    retry_queues: int = 1
    max_attempts: int = OWN_ATTEMPTS

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        for name, kind in (("consume", bool), ("broadcast", bool), ("retry_queues", int), ("max_attempts", int)):
            if not isinstance(getattr(self, name), kind):
                raise InvalidParameter(f"{name} must be {_KINDS[kind]}, got {shown(getattr(self, name))}")
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

    def to_wire(self) -> list[Any]:
        """Flat form for a frame's body."""
        return [self.consume, self.broadcast, self.retry_queues, self.max_attempts]

    @classmethod
    def from_wire(cls, wire: Any) -> GroupSettings:
        """Read the flat form; a broker is trusted to send a well-formed one."""
        consume, broadcast, retry_queues, max_attempts = wire
        return cls(consume=consume, broadcast=broadcast, retry_queues=retry_queues, max_attempts=max_attempts)

    def __str__(self) -> str:
        """The settings in words, as events and `rlab group show` have them."""
        attempts = "own" if self.max_attempts == OWN_ATTEMPTS else self.max_attempts
        return (
            f"consume={_on(self.consume)} broadcast={_on(self.broadcast)} retry_queues={self.retry_queues} "
            f"max_attempts={attempts}"
        )


DEFAULT_SETTINGS = GroupSettings()


def _on(value: bool) -> str:
    return "on" if value else "off"
