"""The interface between the write barrier and the feature that sends flushes to other replicas.

A broker without other replicas has none. With one, each flush of the barrier is offered to it after the local write.
No request is answered, and no reader sees a message of the flush, before it is committed:

    barrier                                     replicator
    commit, write; offer(changes)           ->  n = 7, sent to the other replicas
    commit, write; offer(changes)           ->  n = 8
    shows 7 and 8, answers both in order    <-  on_committed(8), once the replicas that count have both
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from broker.durability.changes import RowChange
from model.errors import NotMaster, RlabError


class Replicator(ABC):
    """Sends flushes to the other replicas. All calls are on the event loop, and none may raise."""

    @abstractmethod
    def begin(self, on_committed: Callable[[int], None], on_ended: Callable[[NotMaster], None]) -> None:
        """Keep the two functions; called once, before the first offer.

        `on_committed(n)`: the flush n and all before it are committed, for good. `on_ended(error)`: this broker is no
        longer the master; nothing is committed after it, and the broker has to be replaced by a new one.
        """

    @abstractmethod
    def may_serve(self) -> bool:
        """Whether a request may be served, or answered, at this moment; called before each, whatever `refusal` was."""

    @abstractmethod
    def refusal(self) -> RlabError | None:
        """Why requests are refused now; None if they are not.

        `NotEnoughReplicas` refuses requests that append messages, another error all that show or change stored state.
        """

    @abstractmethod
    def offer(self, changes: list[RowChange]) -> int:
        """Send a flush that is written here: changes of stored rows, and the log up to its written position.

        The first one has the state with which the broker has started. The replicator may call `on_committed` before it
        returns.

        Returns:
            The number of the flush: 1, 2, 3 and so on.
        """
