"""Sizes and times as people write them on the command line: 512MiB, 10GiB, 72h, 7d, unlimited. Pure."""

from __future__ import annotations

import re

from model.errors import ConfigError

UNLIMITED = "unlimited"

_SIZES = {
    "": 1,
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
}
_TIMES_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 24 * 3_600_000}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)


def bytes_of(option: str, text: str) -> int | None:
    """Return the bytes that a size means; None for «unlimited».

    Args:
        option: the flag, for the error.
        text: a number with KiB, MiB, GiB or TiB (1024 each), or KB, MB, GB or TB (1000 each); bytes without a unit.

    Raises:
        ConfigError: it is not a size.
    """
    return _parsed(option, text, _SIZES, "a size such as 512MiB or 10GiB")


def milliseconds_of(option: str, text: str) -> int | None:
    """Return the milliseconds that a time means; None for «unlimited».

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
