"""Configuration of a name server; the command line fills it from flags, environment and file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom

from model.errors import ConfigError
from model.limits import MAX_CONNECTIONS, MAX_CONNECTIONS_OF_ADDRESS
from remoting.connection import Connection
from remoting.security.access_file import AccessFile
from remoting.security.policy import Policy
from remoting.security.tls.certificates import TlsFiles
from remoting.security.tls.on_demand import GrpcTls


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerConfig:
    """Options of one name server.

    Attributes:
        listen: `host:port`; port 0 takes a free one.
        name: its name in the answers to health checks; its address when empty.
        max_connections: the connection after the last of these is refused.
        max_connections_of_address: the same for connections from one address.
        rocketmq: whether RocketMQ's own clients are served, too.
        connection_class: the class of its connections; a subclass can observe their frames.
        access: users and their rights; without it any client that reaches the port may do anything.
        tls: certificate and key, to encrypt connections.
        grpc_tls: without `tls`, whether clients that begin with TLS are served, and with which certificate.
        elections: directory of the register of replica sets; None for a name server without one. One name server of a
            cluster has it.
        rng: draws the id of a new register; a seed makes a simulation repeatable.
        grace_s: seconds for which a shutdown waits for pending answers.

    Raises:
        ConfigError: a number is out of its range.
    """

    listen: str = "127.0.0.1:9876"
    name: str = ""
    max_connections: int = MAX_CONNECTIONS
    max_connections_of_address: int = MAX_CONNECTIONS_OF_ADDRESS
    rocketmq: bool = True
    connection_class: type[Connection] = Connection
    access: AccessFile | Policy | None = None
    tls: TlsFiles | None = None
    grpc_tls: GrpcTls = None
    elections: Path | None = None
    rng: Random = field(default_factory=SystemRandom)
    grace_s: float = 1.0

    def __post_init__(self) -> None:
        for option, number in (
            ("max_connections", self.max_connections),
            ("max_connections_of_address", self.max_connections_of_address),
        ):
            if not 1 <= number <= MAX_CONNECTIONS:
                raise ConfigError(f"{option} must be 1 to {MAX_CONNECTIONS}, got {number}")
        if self.grace_s < 0:
            raise ConfigError(f"grace_s must not be negative, got {self.grace_s}")
