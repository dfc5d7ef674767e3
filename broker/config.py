"""The options of a broker. The command line fills them from flags, environment and file; tests and clusters directly.

Options of one room are defined there, as `StoreOptions`, `RetentionOptions` and `TransactionOptions`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random, SystemRandom
from typing import NamedTuple

from broker.feature import Core, ReplicatingFeature
from broker.retention.plan import RetentionOptions
from broker.store.disk.files import Files
from broker.store.disk.options import StoreOptions
from broker.transactions.table import TransactionOptions
from model.errors import ConfigError
from model.event_log import EventSink
from model.limits import (
    BROKER_EXPIRY_S,
    BROKER_REGISTER_INTERVAL_S,
    MAX_BROKER_EXPIRY_S,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_OF_ADDRESS,
    RECONNECT_MAX_S,
)
from model.names import check_id
from model.quirks import Quirk, check_quirks
from model.record import FlushMode
from model.topic_route import MASTER_ID
from remoting.address import parse_address
from remoting.connection import Connection
from remoting.security.access_file import AccessFile
from remoting.security.key import Key
from remoting.security.policy import Policy
from remoting.security.tls.certificates import TlsFiles
from remoting.security.tls.on_demand import GrpcTls

RESTORE_GRACE_S = 2 * RECONNECT_MAX_S
"""How long members of an earlier run stay listed: twice a client's longest wait between two attempts."""


def wall_clock_ms() -> float:
    """The wall clock in milliseconds."""
    return time.time() * 1000


class Part(StrEnum):
    """A feature that a broker can lack; it then refuses the requests of this feature, and the rest works."""

    ASSIGNMENT = "assignment"
    POP = "pop"
    SINK = "sink"
    RETENTION = "retention"
    TRANSACTIONS = "transactions"


class Mastership(NamedTuple):
    """The place of a broker in its set of replicas, as the register has it."""

    set_id: int
    register_id: int
    epoch: int
    replica_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Options of one broker; see `rlab broker --help` for the same list.

    Attributes:
        name: broker name; queues are known by it, so it stays the same for the life of the data directory.
        data_dir: where messages and metadata are stored.
        name_servers: addresses of all name servers.
        listen: address to listen on; port 0 takes a free one.
        advertise: address that clients connect to; by default the address at which name servers see this broker.
        cluster: cluster name.
        broker_id: 0 for the master.
        auto_create_topics: whether a send may create its topic.
        register_interval_s: how often the broker registers when nothing changes.
        expiry_s: time without a registration after which name servers remove this broker.
        restore_grace_s: how long members of an earlier run stay listed after a restart without a heartbeat.
        trace: whether events go to the topic SYS_TRACE.
        event_sink: called with every event as well.
        flush: whether a send is answered once its message is in the file, or once it is on the disk.
        quirks: defects of RocketMQ to reproduce.
        store: options of the message store.
        retention: how long messages are kept.
        transactions: when producer groups are asked about their transactions, and how often.
        files: file operations of the message store; tests pass an object that makes the disk fail.
        clock_ms: wall clock in milliseconds.
        access: users and their rights; without them every client that reaches the port may do anything.
        tls: certificate and key with which connections are encrypted.
        grpc_tls: without `tls`, whether clients that begin with TLS are served, and with which certificate.
        key: proved to name servers; by default the key in the environment, if there is one.
        parts: features that this broker has, beyond those that every broker has.
        recover_topics: whether topics that the metadata has lost are recreated from the log; else the broker refuses to
            start.
        rocketmq: whether RocketMQ's own clients are served, too.
        max_connections: number of connections after which the next one is refused.
        max_connections_of_address: the same for the connections from one address.
        connection_class: class of each connection; a subclass can watch the frames that pass.
        replicator: makes the feature that sends everything to other replicas; without it there are none.
        replica: the mastership under which it serves; None if it is not one of several replicas.
        rng: draws the tokens of receipt handles, which must not be guessable; a seed makes a simulation repeatable.

    Raises:
        InvalidParameter: an illegal broker or cluster name.
        ConfigError: an illegal address or interval, a hard limit that segments cannot keep, or a quirk of clients.
    """

    name: str
    data_dir: Path
    name_servers: tuple[str, ...] = ()
    listen: str = "127.0.0.1:10911"
    advertise: str | None = None
    cluster: str = "DefaultCluster"
    broker_id: int = MASTER_ID
    auto_create_topics: bool = True
    register_interval_s: float = BROKER_REGISTER_INTERVAL_S
    expiry_s: float = BROKER_EXPIRY_S
    restore_grace_s: float = RESTORE_GRACE_S
    trace: bool = True
    event_sink: EventSink | None = None
    flush: FlushMode = FlushMode.ASYNC
    quirks: frozenset[Quirk] = frozenset()
    store: StoreOptions = field(default_factory=StoreOptions)
    retention: RetentionOptions = field(default_factory=RetentionOptions)
    transactions: TransactionOptions = field(default_factory=TransactionOptions)
    files: Files = field(default_factory=Files)
    clock_ms: Callable[[], float] = wall_clock_ms
    rng: Random = field(default_factory=SystemRandom)
    recover_topics: bool = False
    rocketmq: bool = True
    max_connections: int = MAX_CONNECTIONS
    max_connections_of_address: int = MAX_CONNECTIONS_OF_ADDRESS
    connection_class: type[Connection] = Connection
    access: AccessFile | Policy | None = None
    tls: TlsFiles | None = None
    grpc_tls: GrpcTls = None
    key: Key | None = None
    parts: frozenset[Part] = frozenset(Part)
    replicator: Callable[[Core], ReplicatingFeature] | None = None
    replica: Mastership | None = None

    def __post_init__(self) -> None:
        check_id("broker name", self.name)
        check_id("cluster name", self.cluster)
        for address in (self.listen, *self.name_servers, *filter(None, (self.advertise,))):
            parse_address(address)
        self.retention.check_segments(self.store.segment_bytes)
        check_quirks(self.quirks, of_client=False)
        if not 0 < self.register_interval_s < self.expiry_s:
            raise ConfigError(
                f"a broker that registers every {self.register_interval_s} s and expires after {self.expiry_s} s would "
                "come and go: register_interval_s must be positive and less than expiry_s"
            )
        if self.expiry_s > MAX_BROKER_EXPIRY_S:
            raise ConfigError(
                f"expiry_s={self.expiry_s}: name servers keep a silent broker for at most {MAX_BROKER_EXPIRY_S:g} s"
            )
        for option, number in (
            ("max_connections", self.max_connections),
            ("max_connections_of_address", self.max_connections_of_address),
        ):
            if not 1 <= number <= MAX_CONNECTIONS:
                raise ConfigError(f"{option} must be 1 to {MAX_CONNECTIONS}, got {number}")
        if self.broker_id < MASTER_ID or self.restore_grace_s < 0:
            raise ConfigError(
                f"broker_id={self.broker_id} and restore_grace_s={self.restore_grace_s} must not be negative"
            )
