"""The state of a cluster as `rlab doctor` observes it: servers once, groups and sets of replicas twice. Pure.

The difference of two observations shows, for example, a lag that grows. A condition that only one of them has may
disappear by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from client.admin.records import BrokerInfo, GroupInfo
from model.absent_broker import NONE_ABSENT, Absence
from model.events import Event
from model.missing_trace import NOTHING_MISSING, MissingTrace
from model.replica_info import ReplicaSetInfo
from traces.figures.clocks.clocks import ClockFault


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNameServer:
    """A name server: the brokers that it lists, or the error of the request."""

    address: str
    brokers: Mapping[str, str] = field(default_factory=dict)  # name of a broker -> address of its master
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedBroker:
    """A registered broker: its state, or the error of the request."""

    name: str
    address: str
    info: BrokerInfo | None = None
    error: str = ""
    clock_ahead_ms: float | None = None  # its clock minus the local one, in the middle of the request; None if unknown
    round_trip_ms: float = 0.0  # maximum error of clock_ahead_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The observed state of a cluster.

    Attributes:
        name_servers, brokers: the servers, each with its state or the error of the request.
        groups: each group, at the first and at the second observation.
        interval_s: time between the two observations, in seconds.
        events: the events of the last minutes, in the order in which they happened, with corrected times.
        clocks: the clocks that were wrong, as computed from these events.
        minutes: the period of `events`, in minutes.
        absence: the brokers that are no longer registered although they did not unregister.
        missing: the part of the events that could not be read.
        sets: broker name -> its set of replicas, at the first and at the second observation.
    """

    name_servers: tuple[ObservedNameServer, ...]
    brokers: tuple[ObservedBroker, ...]
    groups: Mapping[str, tuple[GroupInfo, GroupInfo]]
    interval_s: float
    events: tuple[Event, ...]
    minutes: float
    clocks: tuple[ClockFault, ...] = ()
    absence: Absence = NONE_ABSENT
    missing: MissingTrace = NOTHING_MISSING
    sets: Mapping[str, tuple[ReplicaSetInfo, ReplicaSetInfo]] = field(default_factory=dict)
