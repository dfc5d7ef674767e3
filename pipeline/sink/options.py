"""The options of the sink, parsed and checked in one place. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from model.names import check_topic
from pipeline.access import ACCESS_OPTIONS, AccessFiles, access_files
from pipeline.given_options import GivenOptions

SINK_OPTIONS = ("nameServer", "topic", "delivery", "partitioner", "sendTimeoutMs", "sendRetries", *ACCESS_OPTIONS)
"""Every option, in the order of the table in docs/spark-sink.md."""
_OF_SPARK = ("checkpointLocation", "path", "queryName")
_COLUMNS = ("key", "tag", "body", "queue_id", "properties", "delay", "deliver_at")
"""Columns that have no option of the same name."""


class DeliveryGuarantee(Enum):
    """How often a row is stored."""

    AT_LEAST_ONCE = "atLeastOnce"
    EXACTLY_ONCE = "exactlyOnce"


class Partitioning(Enum):
    """The ways in which the sink picks the queue of a row."""

    KEY_HASH = "keyHash"
    ROUND_ROBIN = "roundRobin"
    QUEUE_ID = "queueId"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Checked options of one write; docs/spark-sink.md explains them."""

    name_servers: tuple[str, ...]
    topic: str | None  # topic of all rows, or None if column `topic` has it
    delivery: DeliveryGuarantee
    partitioning: Partitioning
    send_timeout_s: float
    send_retries: int
    access: AccessFiles


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse the options of `write` or `writeStream`, as Spark passes them.

    Raises:
        ConfigError: an option is unknown, missing or malformed; the text names it.
    """
    sink_options = GivenOptions(options, SINK_OPTIONS, "sink", _OF_SPARK, _COLUMNS)
    return SinkOptions(
        name_servers=sink_options.name_servers(),
        topic=sink_options.parsed("topic", check_topic, "") or None,
        delivery=DeliveryGuarantee(sink_options.one_of("delivery", *(each.value for each in DeliveryGuarantee))),
        partitioning=Partitioning(sink_options.one_of("partitioner", *(each.value for each in Partitioning))),
        send_timeout_s=sink_options.number("sendTimeoutMs", 10_000, 1, 3_600_000) / 1000,
        send_retries=sink_options.number("sendRetries", 5, 0, 100),
        access=access_files(sink_options),
    )
