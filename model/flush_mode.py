"""When a send is answered: how durable an acknowledged message is. RocketMQ: FlushDiskType."""

from __future__ import annotations

from enum import StrEnum


class FlushMode(StrEnum):
    """What an acknowledgement promises; `docs/storage.md` has the table."""

    ASYNC = "async"
    """Written to the file: it survives the process, and a loss of power 0.2 s later. RocketMQ: ASYNC_FLUSH."""
    SYNC = "sync"
    """On the disk itself: it survives a loss of power. RocketMQ: SYNC_FLUSH."""
