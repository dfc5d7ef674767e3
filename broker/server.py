"""Runs a broker: opens its files, listens, registers, and takes it all down again in the opposite order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from broker.broker import Broker
from broker.config import BrokerConfig
from broker.durability.metadata import MetadataStore
from broker.store.disk.errors import StoreError, StoreReadOnly
from broker.store.message_store import MessageStore
from model.events import EventKind
from model.limits import TRACE_FLUSH_INTERVAL_S
from model.record import FlushMode
from remoting.connection import Connection
from remoting.server import serve
from remoting.tasks import background_tasks

logger = logging.getLogger(__name__)

SYNC_INTERVAL_S = 0.2
"""How long a written message may stay unsynced with `FlushMode.ASYNC`."""


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that listens.

    Attributes:
        address: `host:port` that it listens on, with the real port.
        broker: its tables, for tests and embedded use.
        recovery_s: how long it took to open its files, in seconds; `broker.store.recovery` has what that had to do.
    """

    name: str
    address: str
    broker: Broker
    recovery_s: float


@asynccontextmanager
async def run_broker(config: BrokerConfig) -> AsyncIterator[RunningBroker]:
    """Run a broker while the block runs.

    Yields:
        The broker, already listening; it registers with its name servers in the background.

    Raises:
        ConfigError: the data directory or the address cannot be used; the text says what to do.

    Cancellation: the broker stops as at the end of the block: unregistered, written, closed.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    with (
        MessageStore.open(config.data_dir, config.store, lambda: int(config.clock_ms()), config.files) as store,
        MetadataStore(config.data_dir, flush=config.flush, files=config.files) as metadata,
    ):
        if config.flush is FlushMode.SYNC:
            store.show_only_synced()
        broker = Broker(config, store, metadata, loop)
        recovery_s = loop.time() - began
        stopping = False

        def closed(connection: Connection) -> None:
            # The members of a stopping broker have not left: they return to it, or to its next run.
            if not stopping:
                broker.features.connection_closed(connection)

        try:
            async with (
                serve(broker.features.handlers(), config.listen, on_closed=closed) as server,
                background_tasks() as tasks,
            ):
                broker.events.emit(EventKind.BROKER_UP, broker=config.name, detail=server.address)
                tasks.start_soon(broker.driver.run)
                if config.flush is FlushMode.ASYNC:
                    tasks.start_soon(_sync, broker)
                if config.trace:
                    tasks.start_soon(_store_trace, broker)
                broker.registration.start(tasks, server.address)
                logger.info("broker %s listens on %s", config.name, server.address)
                try:
                    yield RunningBroker(config.name, server.address, broker, recovery_s)
                finally:
                    stopping = True
                    with anyio.CancelScope(shield=True):
                        await broker.registration.stop()
                    broker.barrier.close()  # while there are connections to answer over
        finally:
            broker.events.emit(EventKind.BROKER_DOWN, broker=config.name, detail="stop")
            if config.trace:
                broker.store_trace()
            broker.features.close()
            broker.barrier.close()
            logger.info("broker %s stopped", config.name)


async def _store_trace(broker: Broker) -> None:
    while True:
        await anyio.sleep(TRACE_FLUSH_INTERVAL_S)
        broker.store_trace()


async def _sync(broker: Broker) -> None:
    """Make written messages durable in the background; a thread waits for the disk, not the loop."""
    store = broker.store
    while True:
        # An idle broker has nothing to wake up for.
        await broker.barrier.wait_written()
        await anyio.sleep(SYNC_INTERVAL_S)
        try:
            job = store.begin_sync()
            await broker.loop.run_in_executor(None, job.run)
            store.finish_sync(job)
        except StoreReadOnly:
            # Logged once, when it failed; every send gets the error, and only a restart helps.
            return
        except StoreError as error:
            logger.error("broker %s: %s", broker.config.name, error)
