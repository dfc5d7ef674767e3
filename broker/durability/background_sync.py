"""Syncs written messages in the background, with `FlushMode.ASYNC`; a thread waits for the disk, and not the loop."""

from __future__ import annotations

import asyncio
import logging

import anyio

from broker.durability.barrier import WriteBarrier
from broker.store.disk.errors import StoreError, StoreReadOnly
from broker.store.message_store import MessageStore

logger = logging.getLogger(__name__)

SYNC_INTERVAL_S = 0.2
"""How long a written message may stay unsynced with `FlushMode.ASYNC`."""


async def sync_regularly(store: MessageStore, barrier: WriteBarrier, name: str) -> None:
    """Sync written records until the store is read-only. Cancellation: the sync that runs ends by itself."""
    while True:
        # An idle broker has nothing to wake up for.
        await barrier.wait_written()
        await anyio.sleep(SYNC_INTERVAL_S)
        try:
            job = store.begin_sync()
            with barrier.disk.syncing():
                await asyncio.get_running_loop().run_in_executor(None, job.run)
            store.finish_sync(job)
        except StoreReadOnly:
            # Logged once, when it failed; every send gets the error, and only a restart helps.
            return
        except StoreError as error:
            logger.error("broker %s: %s", name, error)
