"""Where a client is in its life. RocketMQ: ServiceState."""

from __future__ import annotations

from enum import StrEnum


class ServiceState(StrEnum):
    """A client goes through these once; a new start needs a new client."""

    CREATE_JUST = "CREATE_JUST"
    RUNNING = "RUNNING"
    SHUTDOWN_ALREADY = "SHUTDOWN_ALREADY"
    START_FAILED = "START_FAILED"
