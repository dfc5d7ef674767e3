"""Configuration of a name server; the command line fills it from flags, environment and file."""

from __future__ import annotations

from dataclasses import dataclass

from model.errors import ConfigError
from model.limits import MAX_CONNECTIONS
from remoting.connection import Connection
from remoting.security.gate import AccessFile
from remoting.security.policy import Policy
from remoting.security.tls import TlsFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerConfig:
    """Options of one name server.

    Attributes:
        listen: `host:port`; port 0 takes a free one.
        name: its name in the answers to health checks; its address when empty.
        max_connections: the connection after that is refused.
        rocketmq: whether RocketMQ's own clients are served, too.
        connection_class: made for each connection; another one watches what passes.
        access: users and their rights; without it whoever reaches the port may do anything.
        tls: certificate and key, to encrypt what passes.
        grace_s: seconds for which the end waits for pending answers.

    Raises:
        ConfigError: a number is out of its range.
    """

    listen: str = "127.0.0.1:9876"
    name: str = ""
    max_connections: int = MAX_CONNECTIONS
    rocketmq: bool = True
    connection_class: type[Connection] = Connection
    access: AccessFile | Policy | None = None
    tls: TlsFiles | None = None
    grace_s: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.max_connections <= MAX_CONNECTIONS:
            raise ConfigError(f"max_connections must be 1 to {MAX_CONNECTIONS}, got {self.max_connections}")
        if self.grace_s < 0:
            raise ConfigError(f"grace_s must not be negative, got {self.grace_s}")
