"""Option declarations of `rlab broker`, and the records that are made from their values.

Sizes and times are written as people write them: 512MiB, 10GiB, 72h, 7d, unlimited.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import age_ms, size_bytes
from model.errors import ConfigError
from model.quirks import CLIENT_QUIRKS, Quirk
from model.record import FlushMode
from process.output import LogFormat

if TYPE_CHECKING:
    from broker.retention.plan import RetentionOptions
    from broker.store.disk.options import StoreOptions
    from broker.transactions.table import TransactionOptions

UNLIMITED = "unlimited"

ExitWithStdin = Annotated[
    bool,
    typer.Option("--exit-with-stdin", hidden=True, help="Take orders on standard input, and stop when it is closed."),
]
Advertise = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Address for clients, if name servers see another one, as behind NAT."),
]
Data = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of the stored messages; by default ./rlab-data/NAME.")
]
Quirks = Annotated[
    list[Quirk] | None,
    typer.Option(
        metavar="NAME",
        help="Reproduce a defect of RocketMQ; may be repeated: "
        f"{', '.join(quirk for quirk in Quirk if quirk not in CLIENT_QUIRKS)}.",
    ),
]
Log = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help="Lines of the log: text for people (the default), or one JSON object each."),
]
Flush = Annotated[
    FlushMode,
    typer.Option(help="Answer a send after the write to the file (async) or after the sync to the disk (sync)."),
]
Trace = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the broker's events to this file as well.")]
TraceTopic = Annotated[bool, typer.Option(help="Store events in the topic SYS_TRACE.")]
RecoverTopics = Annotated[
    bool,
    typer.Option(
        "--recover-topics",
        help="Make topics again from the log if metadata.sqlite is lost or too old; without it, refuse to start then.",
    ),
]
Rocketmq = Annotated[bool, typer.Option(help="Serve RocketMQ's own clients on the same port, too.")]
RegisterInterval = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, help="Interval of registrations while nothing changes.")
]
Expiry = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, help="Time without a registration until name servers drop it.")
]
RestoreGrace = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="Time for members to reconnect before their queues are freed.")
]

RETAIN_AGE, SEGMENT_SIZE, SEGMENT_AGE = "72h", "64MiB", "24h"

RetainAge = Annotated[
    str, typer.Option(metavar="TIME", help="Delete messages older than this, unless a group has yet to consume them.")
]
RetainSize = Annotated[
    str,
    typer.Option(metavar="SIZE", help="Delete the oldest beyond this size, unless a group has yet to consume them."),
]
RetainSizeMax = Annotated[
    str, typer.Option(metavar="SIZE", help="Like --retain-size, but even if a group has yet to consume them.")
]
SegmentSize = Annotated[
    str, typer.Option(metavar="SIZE", help="Segment size; retention deletes whole segments, and recovery scans one.")
]
SegmentAge = Annotated[
    str, typer.Option(metavar="TIME", help="Age at which a segment is closed even if it is not full.")
]

TransactionTimeout = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.01, help="Time until a producer group is asked about a half message.")
]
TransactionCheckInterval = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, help="Time until it is asked about it again.")
]
TransactionMaxChecks = Annotated[
    int, typer.Option(metavar="N", min=1, help="How often it is asked, before the half message is abandoned.")
]
TransactionKeep = Annotated[
    float, typer.Option(metavar="HOURS", min=0.001, help="Age at which a half message is abandoned, asked or not.")
]


def make_retention(age: str, size: str, size_max: str) -> RetentionOptions:
    """Make the retention options from the flags.

    Raises:
        ConfigError: a value is impossible; the flag is named.
    """
    from broker.retention.plan import RetentionOptions

    return RetentionOptions(
        retain_ms=parse_milliseconds("--retain-age", age),
        retain_bytes=parse_bytes("--retain-size", size),
        retain_bytes_max=parse_bytes("--retain-size-max", size_max),
    )


def make_store_options(segment_size: str, segment_age: str) -> StoreOptions:
    """Make the store options from the flags.

    Raises:
        ConfigError: a value is impossible; the flag is named.
    """
    from broker.store.disk.options import StoreOptions

    size = parse_bytes("--segment-size", segment_size)
    age_ms = parse_milliseconds("--segment-age", segment_age)
    if size is None or age_ms is None:
        raise ConfigError(
            f"--segment-size and --segment-age cannot be {UNLIMITED}: a crash costs the scan of a segment"
        )
    try:
        return StoreOptions(segment_bytes=size, segment_age_ms=age_ms)
    except ValueError as error:
        raise ConfigError(f"--segment-size {segment_size} --segment-age {segment_age}: {error}") from error


def make_transaction_options(
    timeout_s: float, check_interval_s: float, max_checks: int, keep_h: float
) -> TransactionOptions:
    """Make the options of transactions from the flags.

    Raises:
        ConfigError: a value is not positive.
    """
    from broker.transactions.table import TransactionOptions

    return TransactionOptions(
        timeout_s=timeout_s, check_interval_s=check_interval_s, max_checks=max_checks, keep_h=keep_h
    )


def parse_bytes(option: str, text: str) -> int | None:
    """Read a size in bytes, as `size_bytes` of `cli/options.py` does; None for "unlimited".

    Raises:
        ConfigError: it is not a size; the flag is named.
    """
    return _or_unlimited(option, text, size_bytes, "a size such as 512MiB or 10GiB")


def parse_milliseconds(option: str, text: str) -> int | None:
    """Read a time in milliseconds, as `age_ms` of `cli/options.py` does; None for "unlimited".

    Raises:
        ConfigError: it is not a time; the flag is named.
    """
    return _or_unlimited(option, text, age_ms, "a time such as 30m, 72h or 7d")


def _or_unlimited(option: str, text: str, read: Callable[[str], int | None], expectation: str) -> int | None:
    if text.strip().lower() == UNLIMITED:
        return None
    value = read(text)
    if value is None:
        raise ConfigError(f"{option} {text!r} must be {expectation}, or {UNLIMITED}")
    return value
