"""Commits the offsets of leased queues: at intervals, promptly when no pull carries them, and with a release.

Each commit has the fencing token of its lease, so that a broker refuses the commit of a former owner. Such a refusal is
how a member detects that it has lost a queue while it was not pulling.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import anyio

from client.instance.instance import ClientInstance
from client.leases.offsets_to_commit import OffsetsToCommit
from client.leases.prompt_commits import PromptCommits
from client.leases.requests import Commit, LeaseRequests
from client.pull.owned_queue import OwnedQueue
from client.rebalance.ownership_table import OwnershipTable
from model.errors import ClientIdConflict, LeaseLost, NetworkError, OffsetRegression, RlabError, ServerError
from model.limits import PULL_RETRY_ERROR_S
from model.message_queue import MessageQueue

logger = logging.getLogger(__name__)

_NOT_DONE = (NetworkError, ServerError)
"""After these errors the broker may not have executed the request. It is sent again."""


class LeaseCommits:
    """The commits of one member; `lost` is called with a queue when its broker reports another owner."""

    def __init__(
        self,
        instance: ClientInstance,
        leases: LeaseRequests,
        offsets: OffsetsToCommit,
        table: OwnershipTable[OwnedQueue],
        on_lost: Callable[[OwnedQueue], None],
    ) -> None:
        self._instance, self._leases, self._offsets = instance, leases, offsets
        self._table, self._lost = table, on_lost
        prompt = PromptCommits(self._commit_promptly)
        self.run, self.note = prompt.run, prompt.record

    async def persist(self) -> dict[MessageQueue, RlabError]:
        """Commit every offset that is not confirmed; returns the failures. Cancellation: some may be committed."""
        failures: dict[MessageQueue, RlabError] = {}
        owned = self._table.owned
        for reset, offsets in self._offsets.split_dirty():
            owned_offsets = {owned[queue]: offset for queue, offset in offsets.items() if queue in owned}
            failed = await self.commit(owned_offsets, reset=reset)
            self._offsets.confirm({o.queue: offset for o, offset in owned_offsets.items() if o.queue not in failed})
            failures |= failed
        return failures

    async def _commit_promptly(self, queues: list[OwnedQueue]) -> None:
        """Commit offsets that no pull has carried. They stay unconfirmed: a broker that crashes may lose them."""
        to_commit = [owned for owned in queues if not (owned.detached or self._offsets.is_reset(owned.queue))]
        offsets = {owned: offset for owned in to_commit if (offset := owned.next_commit()) is not None}
        if offsets:
            await self.commit(offsets, soon=True)

    async def commit(
        self, offsets: dict[OwnedQueue, int], *, reset: bool = False, soon: bool = False
    ) -> dict[MessageQueue, RlabError]:
        """Commit offsets as `LeaseRequests.commit` does, and drop the queues that are lost."""
        commits = [Commit(owned.queue, offset, owned.token) for owned, offset in offsets.items()]
        failures = await self._leases.commit(commits, reset=reset, soon=soon)
        for owned, commit in zip(offsets, commits, strict=True):
            error = failures.get(owned.queue)
            if error is None or (soon and (owned.detached or isinstance(error, OffsetRegression))):
                continue  # a pull or the release with a later offset has overtaken it
            owned.sent_commit = 0
            logger.warning("%s: commit of %s: %s", self._instance.client_id, owned.queue, error)
            # A lease that was renewed while the commit was outstanding is not lost: see `PullLoop`. A conflict means
            # that another process has our client id, and so our leases belong to it.
            if isinstance(error, LeaseLost | ClientIdConflict) and owned.token == commit.token:
                self._lost(owned)
        return failures

    async def release(self, queues: Sequence[OwnedQueue], cause: str) -> None:
        """Commit and release until every broker has done both: an unused lease would strand its queue.

        A broker that is busy or stopping has not released the lease; a broker that refuses a commit has. A broker
        without a route may come back with its leases, so it is asked again, but not at the end of the membership, which
        ends these leases.
        """
        remaining = {owned.queue: owned for owned in queues}
        for owned in queues:
            owned.detached = True  # the commit below is the last; a result after it is ignored
        rewinds = {owned.queue for owned in queues if owned.rewound or self._offsets.is_reset(owned.queue)}
        logged: set[tuple[MessageQueue, type[RlabError]]] = set()  # not the text: it names the time of the next try
        while remaining:
            # The commit of a release may not go backwards, so a reset has to be committed first.
            resets = [Commit(o.queue, o.commit_offset, o.token) for o in remaining.values() if o.queue in rewinds]
            failures = await self._leases.commit(resets, cause, reset=True)
            rewinds = {queue for queue, error in failures.items() if isinstance(error, _NOT_DONE)}
            commits = [Commit(o.queue, o.commit_offset, o.token) for o in remaining.values() if o.queue not in rewinds]
            failures |= await self._leases.release(commits, cause)
            for queue, error in failures.items():
                if (queue, type(error)) not in logged:
                    logged.add((queue, type(error)))
                    logger.warning("%s: release of %s: %s", self._instance.client_id, queue, error)
            brokers = self._instance.routes.brokers()
            remaining = {
                queue: remaining[queue]
                for queue, error in failures.items()
                if isinstance(error, _NOT_DONE) and (queue.broker_name in brokers or not self._table.closing)
            }
            if remaining:
                await anyio.sleep(PULL_RETRY_ERROR_S)
