"""BrokerRegistration: a broker with its topics, read from the wire with every part checked. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from model.errors import ConfigError, InvalidParameter
from model.names import check_id
from model.topic_route import MASTER_ID, MessageType, Perm, TopicConfig, checked_topic_config
from remoting.address import format_address, parse_address
from remoting.body import rows_of
from remoting.command import Command


class BrokerKey(NamedTuple):
    """One broker process: master or replica of a broker name."""

    broker_name: str
    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """The registration of a broker; only a master's topics are used. RocketMQ: RegisterBrokerRequestHeader.

    The replicas of a set have one `set_id`; `epoch` is the number of the newest mastership that the replica knows, and
    at a master its own. Both are 0 without a set.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    version: int
    expiry_s: float
    topics: tuple[TopicConfig, ...]
    newcomer: bool = False  # no name server has known this broker before
    data_id: int = 0  # number of its data directory; 0 if it sends none
    set_id: int = 0
    epoch: int = 0
    replica_id: int = 0
    role: str = ""
    lag_bytes: int = 0

    @property
    def key(self) -> BrokerKey:
        """The broker process that is registered."""
        return BrokerKey(self.broker_name, self.broker_id)


def parse_registration(request: Command) -> BrokerRegistration:
    """Read a REGISTER_BROKER request, whose header has been checked against the schema.

    Raises:
        InvalidParameter: a name or the address is illegal, the master of a set sends no epoch, the body is not a list
            of topics, each once, or the message types do not fit these topics.
    """
    header = request.header
    if header.get("set_id") and header["broker_id"] == MASTER_ID and not header.get("epoch"):
        raise InvalidParameter("field 'epoch': the master of a set of replicas has one")
    rows = rows_of(request)
    topics = tuple(
        checked_topic_config(topic, read, write, Perm(perm), message_type)
        for (topic, read, write, perm), message_type in zip(rows, _types_of(header, len(rows)), strict=True)
    )
    if len({config.topic for config in topics}) < len(topics):
        raise InvalidParameter("a registration must list each topic once")
    return BrokerRegistration(
        cluster=check_id("cluster name", header["cluster"]),
        broker_name=check_id("broker name", header["broker_name"]),
        broker_id=header["broker_id"],
        address=checked_address(header["address"]),
        version=header["version"],
        expiry_s=header["expiry_ms"] / 1000,
        topics=topics,
        newcomer=header.get("newcomer") is True,
        data_id=header.get("data_id") or 0,
        set_id=header.get("set_id") or 0,
        epoch=header.get("epoch") or 0 if header.get("set_id") else 0,
        replica_id=header.get("replica_id") or 0,
        role=header.get("role") or "",
        lag_bytes=header.get("lag_bytes") or 0,
    )


def _types_of(header: Mapping[str, Any], n_topics: int) -> list[MessageType]:
    """Return the type of each topic of a registration; without the field all of them are MIXED."""
    digits = header.get("message_types") or "0" * n_topics
    try:
        types = [MessageType(ord(digit) - ord("0")) for digit in digits]
    except ValueError as error:
        raise InvalidParameter(f"field 'message_types': {error}") from error
    if len(types) != n_topics:
        raise InvalidParameter(
            f"field 'message_types' must have a digit for each of {n_topics} topics, has {len(types)}"
        )
    return types


def checked_address(address: str) -> str:
    """Return a broker's address in its canonical spelling.

    Raises:
        InvalidParameter: the text is not an address, or has no port to connect to.
    """
    try:
        host, port = parse_address(address)
    except ConfigError as error:
        raise InvalidParameter(f"field 'address': {error}") from error
    if port == 0:
        raise InvalidParameter(
            f"field 'address': no client can connect to {address}: register the port that the broker listens on"
        )
    return format_address(host, port)
