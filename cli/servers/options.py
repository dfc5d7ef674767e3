"""The options of `rlab broker` that need more than a word, and the records that some of them make."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from model.errors import ConfigError
from model.quirks import CLIENT_QUIRKS, Quirk

if TYPE_CHECKING:
    from broker.retention.plan import RetentionOptions
    from broker.store.disk.options import StoreOptions

UNLIMITED = "unlimited"

_SIZES = {
    "": 1,
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
}
_TIMES_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 24 * 3_600_000}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)

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


def bytes_of(option: str, text: str) -> int | None:
    """Return the bytes that a size means; None for "unlimited".

    Args:
        option: the flag, for the error.
        text: a number with KiB, MiB, GiB or TiB (1024 each), or KB, MB, GB or TB (1000 each); bytes without a unit.

    Raises:
        ConfigError: it is not a size.
    """
    return _parsed(option, text, _SIZES, "a size such as 512MiB or 10GiB")


def milliseconds_of(option: str, text: str) -> int | None:
    """Return the milliseconds that a time means; None for "unlimited".

    Args:
        option: the flag, for the error.
        text: a number with ms, s, m, h or d; there is no unit to take for granted.

    Raises:
        ConfigError: it is not a time.
    """
    return _parsed(option, text, _TIMES_MS, "a time such as 30m, 72h or 7d")


def _parsed(option: str, text: str, units: dict[str, int], wanted: str) -> int | None:
    if text.strip().lower() == UNLIMITED:
        return None
    match = _QUANTITY.fullmatch(text.strip())
    factor = units.get(match[2].lower()) if match is not None else None
    if match is None or factor is None:
        raise ConfigError(f"{option} {text!r} must be {wanted}, or {UNLIMITED}")
    return int(float(match[1]) * factor)
