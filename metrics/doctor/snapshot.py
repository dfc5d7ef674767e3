"""A cluster as the doctor saw it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from client.admin.records import BrokerInfo, GroupInfo
from model.absent_broker import NOBODY_ABSENT, Absence
from model.events import Event
from model.missing_trace import NOTHING_MISSING, MissingTrace
from traces.figures.clocks.clocks import ClockFault


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerSeen:
    """One name server: the brokers that it lists, or the error instead."""

    address: str
    brokers: Mapping[str, str] = field(default_factory=dict)  # name of a broker -> address of its master
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSeen:
    """One broker that is registered: its state, or the error instead."""

    name: str
    address: str
    info: BrokerInfo | None = None
    error: str = ""
    clock_ahead_ms: float | None = None  # of the clock here, when its answer was under way; None if it does not tell
    round_trip_ms: float = 0.0  # how far that may be wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A cluster as it was seen.

    Attributes:
        groups: each group, at the first and at the second look.
        between_s: time between the two looks, in seconds.
        events: those of the last minutes, in the order in which they happened, with right times.
        clocks: those that were wrong, by these events.
        minutes: how many minutes.
        absence: the brokers that left without a goodbye.
        missing: the part of the events that could not be read.
    """

    name_servers: tuple[NameServerSeen, ...]
    brokers: tuple[BrokerSeen, ...]
    groups: Mapping[str, tuple[GroupInfo, GroupInfo]]
    between_s: float
    events: tuple[Event, ...]
    minutes: float
    clocks: tuple[ClockFault, ...] = ()
    absence: Absence = NOBODY_ABSENT
    missing: MissingTrace = NOTHING_MISSING
