"""The place of a replica that follows, as name servers and clients see it; and a master that changes its place.

A promotion is a start of the broker over the same data at another address, with a higher epoch. Here the data directory
itself goes there, so these tests need no stream between replicas.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from broker.config import Mastership
from broker.topics.registration import Announcement, NoTopics, Registration
from model.errors import NotMaster
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import serve
from testbed.simulation.cluster.cluster import BROKER_PORT, SimulatedCluster

SET_ID = 5


def mastership(epoch: int) -> Mastership:
    return Mastership(SET_ID, 9, epoch, 1)


async def promote(cluster: SimulatedCluster, name: str, host: str, epoch: int) -> None:
    """Start a broker that does not run as the master of an epoch on a host."""
    cluster.masterships[name] = mastership(epoch)
    await cluster.brokers[name].start(host)


@asynccontextmanager
async def following(
    cluster: SimulatedCluster, name: str, host: str, *, master: str = "", epoch: int = 0, replica_id: int = 2
) -> AsyncIterator[list[int]]:
    """Register a replica at a host, which answers every request with NOT_MASTER; yields the codes of the requests."""
    asked: list[int] = []

    def refuse(connection: Connection, request: Command) -> Reply:
        asked.append(request.code)
        raise NotMaster(f"{host} is not the master", master, epoch)

    announcement = Announcement(
        name=name,
        cluster="DefaultCluster",
        broker_id=replica_id,
        name_servers=tuple(cluster.addresses),
        advertise=f"{host}:{BROKER_PORT}",
        register_interval_s=30.0,
        expiry_s=120.0,
        version=1,
        set_id=SET_ID,
        epoch=epoch,
        replica_id=replica_id,
        role="follower",
        lag_bytes=lambda: 7,
    )
    with cluster.simulation.on_host(host):
        async with (
            serve(dict.fromkeys(RequestCode, refuse), f"0.0.0.0:{BROKER_PORT}"),
            anyio.create_task_group() as tasks,
        ):
            registration = Registration(announcement, NoTopics())
            registration.start(tasks, f"0.0.0.0:{BROKER_PORT}")
            await registration.wait_attempted()
            try:
                yield asked
            finally:
                with anyio.CancelScope(shield=True):
                    await registration.stop()
                tasks.cancel_scope.cancel()
