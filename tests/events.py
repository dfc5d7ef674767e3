"""Reads what `encode_events` wrote: in the product itself, Spark reads traces."""

from __future__ import annotations

import json

from model.events import Event


def decode_events(lines: bytes) -> list[Event]:
    """The events of JSON Lines."""
    return [Event(**json.loads(line)) for line in lines.splitlines()]
