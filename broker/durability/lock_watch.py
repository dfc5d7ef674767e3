"""Stops a broker whose lock file was removed or replaced: another broker may use its data directory."""

from __future__ import annotations

from typing import NoReturn

import anyio

from broker.durability.metadata import MetadataStore
from broker.store.disk.errors import StoreLockLost
from broker.store.message_store import MessageStore
from model.limits import LOCK_CHECK_S


async def watch_lock(store: MessageStore, metadata: MetadataStore) -> NoReturn:
    """Look at the lock every second, for as long as it is held; after that nothing is written to the directory.

    Raises:
        StoreLockLost: it is no longer held; the broker has to stop.

    Cancellation: harmless.
    """
    while True:
        await anyio.sleep(LOCK_CHECK_S)
        try:
            store.check_lock()
        except StoreLockLost as error:
            metadata.refuse_commits(error)
            raise
