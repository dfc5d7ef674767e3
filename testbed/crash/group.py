"""Progress of the group of a crash run: the offsets that it has committed, and the wait until it has consumed all."""

from __future__ import annotations

import anyio

from client.admin.admin import Admin
from client.admin.records import QueueProgress
from model.errors import GroupNotExist, RlabError
from model.message_queue import MessageQueue
from testbed.crash.ledger import GROUP, Ledger

DRAIN_QUIET_S = 15.0
"""Time without a delivery after which messages that the group has not consumed count as lost."""
DRAIN_POLL_S = 0.1


async def drain(name_server: str, ledger: Ledger) -> None:
    """Wait until the group has consumed and committed all messages, or is stuck for `DRAIN_QUIET_S`.

    Cancellation: harmless.
    """
    async with Admin(name_server) as admin:
        seen, quiet_since = -1, anyio.current_time()
        while anyio.current_time() - quiet_since < DRAIN_QUIET_S:
            if not ledger.messages.lost and await _lag(admin) == 0:
                return
            if ledger.deliveries != seen:
                seen, quiet_since = ledger.deliveries, anyio.current_time()
            await anyio.sleep(DRAIN_POLL_S)


async def _lag(admin: Admin) -> int | None:
    try:
        group = await admin.group(GROUP)
    except RlabError:
        return None
    return None if group.unreachable else group.lag


async def progress_of_group(name_server: str) -> tuple[QueueProgress, ...]:
    """The committed offset of each queue; empty if there is no group.

    Raises:
        RlabError: a broker does not answer.

    Cancellation: harmless.
    """
    async with Admin(name_server) as admin:
        try:
            return (await admin.group(GROUP)).queues
        except GroupNotExist:
            return ()


def committed_offsets(queues: tuple[QueueProgress, ...]) -> dict[MessageQueue, int]:
    """The offsets that were committed."""
    return {queue.queue: queue.committed for queue in queues if queue.committed is not None}
