"""The options of `rlab broker` that need more than a word, and the records that some of them make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.servers.quantities import UNLIMITED, bytes_of, milliseconds_of
from model.errors import ConfigError
from model.quirks import CLIENT_QUIRKS, Quirk

if TYPE_CHECKING:
    from broker.retention.plan import RetentionOptions
    from broker.store.disk.options import StoreOptions

Advertise = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Address that clients are told, if not the one that name servers see."),
]
Data = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Where messages are stored; ./rlab-data/NAME by default.")
]
Quirks = Annotated[
    list[Quirk] | None,
    typer.Option(
        metavar="NAME",
        help=f"A defect of the reference to show: {', '.join(quirk for quirk in Quirk if quirk not in CLIENT_QUIRKS)}.",
    ),
]
RegisterInterval = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, help="How often it registers when nothing changes.")
]
Expiry = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, help="Silence after which name servers take it for dead.")
]
RestoreGrace = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="How long members may take to return after a restart.")
]

RETAIN_AGE, SEGMENT_SIZE, SEGMENT_AGE = "72h", "64MiB", "24h"

RetainAge = Annotated[
    str, typer.Option(metavar="TIME", help="Delete older messages, unless a group has still to read them.")
]
RetainSize = Annotated[
    str, typer.Option(metavar="SIZE", help="Delete the oldest beyond it, unless a group has still to read them.")
]
RetainSizeMax = Annotated[
    str, typer.Option(metavar="SIZE", help="Delete the oldest beyond it, also if a group has still to read them.")
]
SegmentSize = Annotated[
    str, typer.Option(metavar="SIZE", help="When a file is full; whole files are deleted, and one is read at a start.")
]
SegmentAge = Annotated[str, typer.Option(metavar="TIME", help="When a file is finished although it is not full.")]


def retention_of(age: str, size: str, size_max: str) -> RetentionOptions:
    """Make the options of retention from what the flags say.

    Raises:
        ConfigError: one of them cannot be; it is named.
    """
    from broker.retention.plan import RetentionOptions

    return RetentionOptions(
        retain_ms=milliseconds_of("--retain-age", age),
        retain_bytes=bytes_of("--retain-size", size),
        retain_bytes_max=bytes_of("--retain-size-max", size_max),
    )


def store_of(segment_size: str, segment_age: str) -> StoreOptions:
    """Make the options of the message store from what the flags say.

    Raises:
        ConfigError: one of them cannot be; it is named.
    """
    from broker.store.disk.options import StoreOptions

    size = bytes_of("--segment-size", segment_size)
    age_ms = milliseconds_of("--segment-age", segment_age)
    if size is None or age_ms is None:
        raise ConfigError(
            f"--segment-size and --segment-age cannot be {UNLIMITED}: a crash costs the scan of a segment"
        )
    try:
        return StoreOptions(segment_bytes=size, segment_age_ms=age_ms)
    except ValueError as error:
        raise ConfigError(f"--segment-size {segment_size} --segment-age {segment_age}: {error}") from error
