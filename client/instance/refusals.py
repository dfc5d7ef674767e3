"""Refusals of brokers to a client: of the messages of a group, and of its heartbeats.

A group that an operator has switched off goes on asking, each of its queues every second, so that it consumes again
soon after it is switched on. One warning says what to do; a warning for each refusal would bury the rest of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from model.errors import ConfigError, NoPermission, NotAuthenticated, RlabError, UsageError
from model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


class Refusals:
    """The queues of which brokers refuse messages to the groups of one client."""

    def __init__(self) -> None:
        self.refused: dict[str, dict[MessageQueue, None]] = {}  # by group; bounded by the queues that are asked for

    def add(self, client_id: str, group: str, queue: MessageQueue, error: NoPermission) -> None:
        """Note a refusal; the first of a group is logged as a warning."""
        queues = self.refused.setdefault(group, {})
        level = logging.DEBUG if queues else logging.WARNING
        queues[queue] = None
        logger.log(level, "%s: group %s gets no messages of %s, and keeps trying: %s", client_id, group, queue, error)

    def discard(self, client_id: str, group: str, queue: MessageQueue) -> None:
        """Note that a queue is not refused any more, or not asked for; the last of a group is logged."""
        queues = self.refused.get(group, {})
        if queue in queues:
            del queues[queue]
            if not queues:
                del self.refused[group]
                logger.info("%s: group %s is refused no messages any more", client_id, group)


class HeartbeatRefusals:
    """The brokers that refuse the heartbeats of one client, and since when.

    A broker refuses a heartbeat as a whole, whichever group in it is wrong, and without heartbeats the sessions of all
    groups end. So a refusal must not stay in the log: who starts or subscribes gets it (`check`), and one that lasts
    for a session ends the consumer (`final`). Until then the reason may go: another process with our client id stops.
    """

    def __init__(self) -> None:
        self._by_address: dict[str, tuple[UsageError, float]] = {}

    def refused(self, address: str, error: RlabError, now: float) -> None:
        """Record how a heartbeat failed at a loop time. Only a failure that lasts until a change is a refusal.

        The two errors of a new connection do not count: a key or a certificate is being changed, here or there.
        """
        if isinstance(error, UsageError) and not isinstance(error, NotAuthenticated | ConfigError):
            _, since = self._by_address.get(address, (error, now))
            self._by_address[address] = error, since

    def accepted(self, address: str) -> None:
        """Record that a broker has taken a heartbeat."""
        self._by_address.pop(address, None)

    def check(self, addresses: Collection[str]) -> None:
        """Raise the refusal of one of these brokers, if there is one; an error of the same class names the broker."""
        for address in addresses:
            if address in self._by_address:
                error, _ = self._by_address[address]
                raise type(error)(f"broker {address} refuses this client: {error}") from error

    def final(self, address: str, now: float, session_timeout_s: float) -> UsageError | None:
        """The refusal of a broker that has lasted for a session; None without one.

        A missing right does not count: an operator may grant it while the client runs, and each heartbeat logs it.
        """
        error, since = self._by_address.get(address, (None, now))
        lasts = now - since >= session_timeout_s
        return error if lasts and not isinstance(error, NoPermission) else None
