"""The options of the source, parsed and checked in one place. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from model.errors import ConfigError, UsageError
from model.limits import MAX_EXPRESSION_CHARS, MAX_PULL_BATCH
from model.message_queue import MessageQueue
from model.names import check_group, check_topic
from model.subscription import Sql, parse_expression
from pipeline.access import ACCESS_OPTIONS, AccessFiles, access_files
from pipeline.given_options import GivenOptions
from pipeline.source.offsets import EARLIEST, LATEST, Offsets, parse_offsets, parse_queues

OPTIONS = (
    "nameServer",
    "subscribe",
    "subscribePattern",
    "assign",
    "tags",
    "filter",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingGroup",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeProperties",
    "includeBody",
    "pullBatchSize",
    "pullTimeoutMs",
    "fetchRetries",
    "metadataPollMs",
    "groupId",
    "filterPushdown",
    "useArrow",
    *ACCESS_OPTIONS,
)
"""Every option, in the order of the table in docs/spark-source.md."""

_BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "filterPushdown")
_STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
SELECTIONS = ("subscribe", "subscribePattern", "assign")
_UNITS_S = {
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
}
"""The units of Spark's intervals, and the short ones of its options."""
_PART_OF_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The offsets at which a read begins or ends.

    Attributes:
        timestamp_ms: the first message stored at or after this wall-clock time in milliseconds; overrides the offsets.
        timestamps_ms: the same for single queues; overrides `timestamp_ms`.
        group: queues begin at the committed offset of this group; the other attributes apply to queues without one.
    """

    default: int  # EARLIEST or LATEST, for queues that are not in `offsets`
    offsets: Offsets = field(default_factory=dict)
    timestamp_ms: int | None = None
    timestamps_ms: Offsets = field(default_factory=dict)
    group: str = ""
    or_latest: bool = False  # whether a queue without such a message begins at its end; else that is an error

    @property
    def is_repeatable(self) -> bool:
        """Whether resolving it again yields the same offsets, unless messages are deleted."""
        if self.group or (self.or_latest and self.timestamps_ms):
            return False
        relative = self.default == LATEST or LATEST in self.offsets.values()
        return not self.or_latest if self.timestamp_ms is not None else not relative


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Checked options of one read; docs/spark-source.md explains them."""

    name_servers: tuple[str, ...]
    topics: tuple[str, ...]  # named by `subscribe`, else empty
    pattern: re.Pattern[str] | None  # of `subscribePattern`, else None
    queues: tuple[MessageQueue, ...]  # of `assign`, else empty
    tags: frozenset[str] | None  # wanted tags, or None for all
    sql: str | None  # filter of the messages by their properties, or None for all
    start: Position
    end: Position
    max_rows_per_trigger: int | None
    min_rows_per_trigger: int | None
    max_trigger_delay_s: float
    min_partitions: int
    max_partitions: int | None
    max_rows_per_partition: int | None
    fail_on_data_loss: bool
    include_properties: bool
    include_body: bool
    pull_batch: int
    pull_timeout_s: float
    fetch_retries: int
    metadata_poll_s: float
    group: str  # name under which brokers log reads of deleted messages; the reader does not join the group
    filter_pushdown: bool
    access: AccessFiles

    @property
    def broker_filter(self) -> str | None:
        """The SQL filter that brokers get: with the tags in it, because a pull has either a filter or tags."""
        if self.sql is None or not self.tags:
            return self.sql
        tags = ", ".join("'" + tag.replace("'", "''") + "'" for tag in sorted(self.tags))
        both = f"TAGS IN ({tags}) AND ({self.sql})"
        return both if len(both) <= MAX_EXPRESSION_CHARS else self.sql

    @property
    def is_filtered(self) -> bool:
        """Whether brokers leave out messages of a range, so that a missing offset is not a damaged message."""
        return self.tags is not None or self.sql is not None


def parse_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Parse the options of `spark.read` or `spark.readStream`, as Spark passes them.

    Raises:
        ConfigError: an option is unknown, missing, malformed, or of the other kind of read; the text names it.
    """
    source_options = GivenOptions(options, OPTIONS, "source")
    for name in _BATCH_ONLY if streaming else _STREAM_ONLY:
        if source_options.has(name):
            raise ConfigError(f"option {name} is for a {'batch read' if streaming else 'stream'}: leave it out here")
    selected = [name for name in SELECTIONS if source_options.has(name)]
    if len(selected) != 1:
        raise ConfigError(f"give one of {', '.join(SELECTIONS)}; got {' and '.join(selected) or 'none'}")
    source_options.flag("useArrow", True)  # no effect: see `RlabDataSource`
    return SourceOptions(
        name_servers=source_options.name_servers(),
        topics=source_options.parsed("subscribe", _topics, ()),
        pattern=source_options.parsed("subscribePattern", re.compile, None),
        queues=source_options.parsed("assign", parse_queues, ()),
        tags=source_options.parsed("tags", parse_expression, None),
        sql=source_options.parsed("filter", _filter, None),
        start=_start(source_options, streaming=streaming),
        end=_end(source_options),
        max_rows_per_trigger=source_options.number_or_none("maxOffsetsPerTrigger", 1),
        min_rows_per_trigger=source_options.number_or_none("minOffsetsPerTrigger", 1),
        max_trigger_delay_s=source_options.parsed("maxTriggerDelay", parse_duration_s, 15 * 60.0),
        min_partitions=source_options.number("minPartitions", 0, 1, 1_000_000),
        max_partitions=_max_partitions(source_options),
        max_rows_per_partition=source_options.number_or_none("maxRecordsPerPartition", 1),
        fail_on_data_loss=source_options.flag("failOnDataLoss", True),
        include_properties=source_options.flag("includeProperties", False),
        include_body=source_options.flag("includeBody", True),
        pull_batch=source_options.number("pullBatchSize", MAX_PULL_BATCH, 1, MAX_PULL_BATCH),
        pull_timeout_s=source_options.number("pullTimeoutMs", 3_000, 1, 3_600_000) / 1000,
        fetch_retries=source_options.number("fetchRetries", 5, 0, 100),
        metadata_poll_s=source_options.number("metadataPollMs", 100, 0, 3_600_000) / 1000,
        group=source_options.parsed("groupId", check_group, "SPARK"),
        filter_pushdown=source_options.flag("filterPushdown", False),
        access=access_files(source_options),
    )


def _max_partitions(source_options: GivenOptions) -> int | None:
    max_partitions = source_options.number_or_none("maxPartitions", 1)
    if max_partitions is None:
        return None
    if source_options.has("maxRecordsPerPartition"):
        raise ConfigError("option maxPartitions contradicts maxRecordsPerPartition: give one of them")
    if max_partitions < source_options.number("minPartitions", 0, 1, 1_000_000):
        raise ConfigError(f"option maxPartitions: {max_partitions} is less than minPartitions")
    return max_partitions


def parse_duration_s(text: str) -> float:
    """Read `500ms`, `10s`, `15m` or `1h`, or an interval of Spark such as `1 minute 30 seconds`, as seconds.

    Raises:
        ValueError: it has another form.
    """
    parts = text.strip().lower().removeprefix("interval").strip()
    parts_found = _PART_OF_DURATION.findall(parts)
    if not parts_found or _PART_OF_DURATION.sub("", parts) or any(unit not in _UNITS_S for _, unit in parts_found):
        raise ValueError(f"{text!r} is not a time: write 500ms, 10s, 15m, 1h or 5 minutes")
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts_found)


def _start(source_options: GivenOptions, *, streaming: bool) -> Position:
    strategy = source_options.one_of("startingOffsetsByTimestampStrategy", "error", "latest")
    default = LATEST if streaming else EARLIEST
    position = source_options.parsed(
        "startingOffsets", lambda text: _position(text, EARLIEST), Position(default=default)
    )
    if not streaming and (position.default == LATEST or LATEST in position.offsets.values()):
        raise ConfigError("option startingOffsets: a batch read from the latest offset on reads nothing")
    timestamp_ms = source_options.number_or_none("startingTimestamp", 0)
    if timestamp_ms is not None:
        position = Position(default=default, timestamp_ms=timestamp_ms)
    timestamps_ms: Offsets = source_options.parsed("startingOffsetsByTimestamp", _timestamps, {})
    group = source_options.parsed("startingGroup", check_group, "")
    return replace(position, timestamps_ms=timestamps_ms, or_latest=strategy == "latest", group=group)


def _end(source_options: GivenOptions) -> Position:
    position = source_options.parsed("endingOffsets", lambda text: _position(text, LATEST), Position(default=LATEST))
    if position.default == EARLIEST or EARLIEST in position.offsets.values():
        raise ConfigError("option endingOffsets: a read that ends at the earliest offset reads nothing")
    timestamp_ms = source_options.number_or_none("endingTimestamp", 0)
    if timestamp_ms is not None:
        position = Position(default=LATEST, timestamp_ms=timestamp_ms)
    timestamps_ms: Offsets = source_options.parsed("endingOffsetsByTimestamp", _timestamps, {})
    return replace(position, timestamps_ms=timestamps_ms, or_latest=True)


def _timestamps(text: str) -> Offsets:
    timestamps_ms = parse_offsets(text, "milliseconds in JSON wanted; it")
    for queue, timestamp_ms in timestamps_ms.items():
        if timestamp_ms < 0:
            raise ValueError(f"{timestamp_ms} of {queue} is not a time in milliseconds")
    return timestamps_ms


def _position(text: str, default: int) -> Position:
    names = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in names:
        return Position(default=names[text.lower()])
    return Position(default=default, offsets=parse_offsets(text, "earliest, latest or JSON wanted; it"))


def _filter(text: str) -> str:
    try:
        return Sql(text).text
    except UsageError as error:
        raise ValueError(str(error)) from error


def _topics(text: str) -> tuple[str, ...]:
    return tuple(sorted({check_topic(name.strip()) for name in text.split(",")}))
