"""Waits until the brokers of a cluster are registered at its name server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import anyio

from model.errors import ServiceNotAvailable
from process.children import START_TIMEOUT_S

if TYPE_CHECKING:
    from client.admin.admin import Admin

_POLL_S = 0.02


async def wait_registered(admin: Admin, addresses: Iterable[str], timeout_s: float = START_TIMEOUT_S) -> None:
    """Wait until the name server lists brokers at these addresses.

    A broker that was killed may still be listed, so its name alone does not suffice.

    Raises:
        ServiceNotAvailable: they did not register in time.
    """
    expected = set(addresses)
    with anyio.move_on_after(timeout_s) as scope:
        # Name servers send no notification about a new broker.
        while not expected <= {each for broker in await admin.brokers() for each in broker.addresses.values()}:  # noqa: ASYNC110
            await anyio.sleep(_POLL_S)
    if scope.cancelled_caught:
        raise ServiceNotAvailable(f"the brokers did not register within {timeout_s:g} s")
