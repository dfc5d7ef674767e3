"""Consumers of RocketMQ 5 for scenarios: what they get, and how it ended."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import anyio

from client.admin.admin import Admin
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.cluster.stock import StockMember
from testbed.simulation.cluster.stock_link import StockMessage

_NUMBERS = itertools.count(1)


class Notes:
    """The work of members, which several may share: it fails for some bodies, always or once, and takes `work_s`.

    Attributes:
        got: body and virtual time of each message that came.
        done: bodies that were consumed, in that order.
        ended: bodies of which a broker has confirmed that they are acknowledged or dead letters.
    """

    def __init__(self, *, fails: Iterable[bytes] = (), fails_once: Iterable[bytes] = (), work_s: float = 0.0) -> None:
        self.got: list[tuple[bytes, float]] = []
        self.done: list[bytes] = []
        self.ended: list[bytes] = []
        self.work_s = work_s
        self._fails, self._fails_once = set(fails), set(fails_once)

    def received(self, message: StockMessage) -> None:
        self.got.append((message.body, anyio.current_time()))

    async def consume(self, message: StockMessage) -> bool:
        await anyio.sleep(self.work_s)
        if message.body in self._fails or message.body in self._fails_once:
            self._fails_once.discard(message.body)
            return False
        self.done.append(message.body)
        return True

    def acknowledging(self, message: StockMessage) -> None:
        pass

    def settled(self, message: StockMessage) -> None:
        self.ended.append(message.body)

    @property
    def bodies(self) -> list[bytes]:
        return [body for body, _ in self.got]


async def start_stock(
    cluster: SimulatedCluster, notes: Notes, *, is_push: bool = True, invisible_s: float = 3.0
) -> StockMember:
    """Start a member of group g that reads topic t; it has received from each broker when this returns."""
    number = next(_NUMBERS)
    member = StockMember(
        *(cluster.simulation, f"stock-{number}", "g", "t", cluster.addresses, notes),
        is_push=is_push,
        invisible_s=invisible_s,
        grace_s=3.0,
        number=number,
    )
    await member.start()
    cluster.poppers.append(member)
    await anyio.sleep(15 if not is_push else 2)
    return member


async def set_group(cluster: SimulatedCluster, **changes: Any) -> None:
    """Change settings of group g, which may not be there yet."""
    with cluster.simulation.on_host("operator"):
        async with Admin(cluster.addresses) as admin:
            await admin.set_group("g", create=True, **changes)
