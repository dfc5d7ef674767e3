"""The options of the sink: read, checked and explained in one place. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from model.errors import ConfigError
from model.names import check_topic
from pipeline.given_options import GivenOptions
from remoting.address import parse_addresses

SINK_OPTIONS = ("nameServer", "topic", "delivery", "partitioner", "sendTimeoutMs", "sendRetries")
"""Every option, in the order of the table in docs/spark-sink.md."""
_OF_SPARK = ("checkpointLocation", "path", "queryName")


class DeliveryGuarantee(Enum):
    """How often a row arrives."""

    AT_LEAST_ONCE = "atLeastOnce"
    EXACTLY_ONCE = "exactlyOnce"


class Partitioning(Enum):
    """What decides on the queue of a row."""

    KEY_HASH = "keyHash"
    ROUND_ROBIN = "roundRobin"
    QUEUE_ID = "queueId"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Checked options of one write; what each means stands in docs/spark-sink.md.

    Attributes:
        topic: of all rows, or None where column `topic` says it.
    """

    name_servers: tuple[str, ...]
    topic: str | None
    delivery: DeliveryGuarantee
    partitioning: Partitioning
    send_timeout_s: float
    send_retries: int


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Read the options of `write` or `writeStream`.

    Args:
        options: as Spark hands them over: names in any case, values as text.

    Raises:
        ConfigError: an option is unknown, missing or malformed; the text names it.
    """
    given = GivenOptions(options, SINK_OPTIONS, "sink", _OF_SPARK)
    if not given.has("nameServer"):
        raise ConfigError("option nameServer is missing: give the address of a name server, host:port[,host:port]")
    return SinkOptions(
        name_servers=given.parsed("nameServer", parse_addresses, ()),
        topic=given.parsed("topic", check_topic, "") or None,
        delivery=DeliveryGuarantee(given.one_of("delivery", *(one.value for one in DeliveryGuarantee))),
        partitioning=Partitioning(given.one_of("partitioner", *(one.value for one in Partitioning))),
        send_timeout_s=given.number("sendTimeoutMs", 10_000, 1, 3_600_000) / 1000,
        send_retries=given.number("sendRetries", 5, 0, 100),
    )
