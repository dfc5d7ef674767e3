"""The options that every client has, and their checks."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any
from weakref import WeakSet

from client.trigger import Trigger
from model.arguments import short_repr
from model.errors import ConfigError
from model.event_log import EventSink
from model.limits import HEARTBEAT_INTERVAL_S, OFFSET_PERSIST_INTERVAL_S, REQUEST_TIMEOUT_S, ROUTE_POLL_INTERVAL_S
from model.names import check_id
from model.quirks import Quirk, check_quirks
from remoting.address import parse_addresses
from remoting.client import CodecFactory
from remoting.security.key import Key
from rocketmq.outward.dialect import OutwardDialect

MAX_SECONDS = 3600.0
"""Longest interval and timeout of a client."""


def check_seconds(option: str, value: float) -> None:
    """Raise ConfigError, naming the option, for seconds that would make a loop spin or never end, and for NaN."""
    if not isinstance(value, (int, float)) or not 0 < value <= MAX_SECONDS:
        raise ConfigError(f"{option} must be above 0 and at most {MAX_SECONDS:g} seconds, got {value!r}")


def wall_clock_ms() -> float:
    """The wall clock in milliseconds."""
    return time.time() * 1000


class ServerDialect(StrEnum):
    """The protocol that servers speak."""

    RLAB = "rlab"
    """The protocol of this project."""
    ROCKETMQ = "rocketmq"
    """The protocol of Apache RocketMQ's name servers and brokers."""
    AUTO = "auto"
    """The protocol of this project; RocketMQ's if name servers answer only that."""

    def codec_of(self) -> CodecFactory | None:
        """The function that makes the codecs of a client's connections; None for the usual one."""
        return OutwardDialect().codec if self is ServerDialect.ROCKETMQ else None


def parse_dialect(name: str) -> ServerDialect:
    """The dialect with this name.

    Raises:
        ConfigError: there is none.
    """
    try:
        return ServerDialect(name)
    except ValueError:
        raise ConfigError(f"dialect must be one of {', '.join(ServerDialect)}; got {name!r}") from None


_KINDS: tuple[tuple[str, Any, str], ...] = (
    ("quirks", Set | list | tuple, "a set of Quirk"),
    ("triggers", Set | list | tuple, "a set of Trigger"),
    ("trace", bool, "True or False"),
    ("event_sink", Callable | None, "a function of an event"),
    ("key", Key | None, "a Key"),
    ("clock_ms", Callable, "a function that returns milliseconds"),
    ("rng", random.Random, "a random.Random"),
)
"""The types of the options that have no other check."""


_generators: WeakSet[random.Random] = WeakSet()


def _forked() -> None:
    """Seed the generators again after a fork: a client that was made before and is started after it gets other ids."""
    for rng in _generators:
        rng.seed()


os.register_at_fork(after_in_child=_forked)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Options of a client instance.

    Attributes:
        name_servers: addresses; a string separated by commas, or a list.
        instance_name: clients of one process with the same name share one instance (connections, heartbeats, loops).
            None makes a separate instance.
        client_ip: first part of the client id; by default the address that the name server sees.
        heartbeat_interval_s: longest time between heartbeats to a broker; a third of the shortest session of a
            consumer if that is less.
        route_poll_interval_s: how often routes are polled.
        offset_persist_interval_s: how often offsets are committed.
        request_timeout_s: for requests that a broker does not park.
        triggers: what may set off a pass; a smaller set is for studying the effect of each.
        quirks: defects of RocketMQ to reproduce.
        trace: whether events go to the topic SYS_TRACE; never with servers of RocketMQ.
        dialect: protocol of the servers: `rlab`, `rocketmq` for name servers and brokers of Apache RocketMQ, or `auto`,
            which finds out at the start.
        event_sink: called with every event.
        key: proved to every server; by default the key of the environment, if there is one.
        clock_ms: wall clock in milliseconds.
        rng: randomness of back-offs and of the instance id.
    """

    name_servers: str | Sequence[str]
    instance_name: str | None = None
    client_ip: str | None = None
    heartbeat_interval_s: float = HEARTBEAT_INTERVAL_S
    route_poll_interval_s: float = ROUTE_POLL_INTERVAL_S
    offset_persist_interval_s: float = OFFSET_PERSIST_INTERVAL_S
    request_timeout_s: float = REQUEST_TIMEOUT_S
    triggers: frozenset[Trigger] = frozenset(Trigger)
    quirks: frozenset[Quirk] = frozenset()
    trace: bool = True
    dialect: ServerDialect = ServerDialect.AUTO
    event_sink: EventSink | None = None
    key: Key | None = None
    clock_ms: Callable[[], float] = wall_clock_ms
    rng: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        """Refuse values that cannot work.

        Raises:
            ConfigError: a malformed address, an unknown dialect, an interval or timeout out of range, a quirk that only
                brokers have, or an option of a wrong type.
            InvalidParameter: an illegal instance name or address of the client.
        """
        parse_addresses(self.name_servers)
        object.__setattr__(self, "dialect", parse_dialect(self.dialect))
        if self.dialect is ServerDialect.ROCKETMQ:
            object.__setattr__(self, "trace", False)
        for field_name, kinds, kind in _KINDS:
            if not isinstance(getattr(self, field_name), kinds):
                raise ConfigError(f"{field_name} must be {kind}, got {short_repr(getattr(self, field_name))}")
        _generators.add(self.rng)
        check_quirks(self.quirks, of_client=True)
        for option in fields(self):
            if option.name.endswith("_s"):
                check_seconds(option.name, getattr(self, option.name))
        for subject, name in (("instance name", self.instance_name), ("client ip", self.client_ip)):
            if name is not None:
                check_id(subject, name)
