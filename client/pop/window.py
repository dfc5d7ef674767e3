"""PoppedQueue: the messages of one queue that this consumer popped, until they are acknowledged or given back. Pure.

    put 5 6 7           waiting, and invisible to all others for a time
    next_batch -> 5     with a listener
    due(now) -> 6, 7    two thirds of the time are over: somebody has to make it longer, for those that wait as well
    end(5)              taken out, to be acknowledged, or made invisible until it shall be tried again

A handle may die meanwhile, because no broker could be told in time, and then the message is another consumer's. It is
taken out by `lost`, is handed out no more if it still waited, and whatever its listener says later finds nothing here.
While a request that changes a handle is under way the message is `busy`: what shall become of it waits for the answer,
because that holds the only handle that is good then.

In order, one batch is with a listener at a time, and a message that failed is tried again where it stands: it is made
longer and longer invisible, and all behind it wait.

All times are loop times in seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from client.pop.message import PopMessage, popped_of
from model.limits import PULL_RETRY_ERROR_S
from model.message import MessageExt
from model.message_queue import MessageQueue

RENEW_AT = 2 / 3
"""Which part of its invisible time may be over before it is made longer."""


@dataclass(slots=True, eq=False)
class Popped:
    """One message that was popped.

    Attributes:
        message: the message; its token is that of the handle that is good now.
        expires_at: when its invisible time is over.
        renew_at: when to make it longer.
        handed: whether a listener has it.
        left: called once it is taken out, whatever for.
        busy: whether a request that changes its handle is under way.
        then: what to do once that is answered.
    """

    message: PopMessage
    expires_at: float
    renew_at: float
    left: Callable[[], object]
    handed: bool = False
    busy: bool = False
    then: Callable[[], object] | None = None


class PoppedQueue:
    """See the module header.

    Args:
        queue: which.
        in_order: whether messages wait for those before them.

    Attributes:
        offered: whether it stands in line for a worker.
        in_flight: messages that a listener has.
    """

    def __init__(self, queue: MessageQueue, *, in_order: bool) -> None:
        self.queue = queue
        self.offered = False
        self.in_flight = 0
        self._in_order = in_order
        self._held: dict[int, Popped] = {}
        self._waiting: deque[Popped] = deque()  # those that were taken out are passed over
        self._not_before: float | None = None

    def __len__(self) -> int:
        return len(self._held)

    @property
    def process_queue(self) -> PoppedQueue:
        """What workers take messages from: this."""
        return self

    def lease_valid(self, now: float) -> bool:
        """Whether messages may be handed out: always, there is no lease."""
        return True

    # --- messages ----------------------------------------------------------------------------------------------------

    def put(self, messages: Iterable[PopMessage], now: float, invisible_s: float, left: Callable[[], object]) -> None:
        """Add what a pop brought.

        Args:
            messages: in offset order. One that is here already was delivered again: its older handle is dead.
            now: when they were asked for: their time began then or later, however long the answer was on its way.
            invisible_s: for how long they are invisible.
            left: called for each once it is taken out.
        """
        for message in messages:
            older = self._held.get(message.offset)
            if older is not None:
                self._take_out(older)
            popped = Popped(message, now + invisible_s, now + invisible_s * RENEW_AT, left)
            self._held[message.offset] = popped
            self._waiting.append(popped)

    def ready(self, now: float) -> bool:
        """Whether `next_batch` would return a message, unless its time is over."""
        if self._in_order and (self.in_flight or (self._not_before is not None and now < self._not_before)):
            return False
        return bool(self._waiting)

    def next_batch(self, max_messages: int, now: float) -> list[MessageExt]:
        """Hand messages out, in offset order; none whose invisible time is over, for somebody else may have it."""
        batch: list[MessageExt] = []
        if not self.ready(now):
            return batch
        self._not_before = None
        while self._waiting and len(batch) < max_messages:
            popped = self._waiting.popleft()
            if self._held.get(popped.message.offset) is not popped:
                continue
            if now >= popped.expires_at:
                self._take_out(popped)
                continue
            popped.handed = True
            self.in_flight += 1
            batch.append(popped.message)
        return batch

    def next_retry_deadline(self) -> float | None:
        """When messages that failed may be handed out again; in order only."""
        return self._not_before if self._waiting else None

    def end(self, messages: Sequence[MessageExt]) -> list[Popped]:
        """Take out messages that a listener is done with, and return those of them that are still ours."""
        ended = []
        for message in messages:
            popped = self._held.get(message.offset)
            if popped is not None and popped.message is message:
                self._take_out(popped)
                ended.append(popped)
        return ended

    def give_back(self, messages: Sequence[MessageExt], not_before: float) -> None:
        """Let messages that failed be tried again here, in their order and before all others; in order only."""
        for message in reversed(messages):
            popped = self._held.get(message.offset)
            if popped is not None and popped.message is message:
                self.in_flight -= popped.handed
                popped.handed = False
                # A message that a listener has had is not changed behind its back.
                mine = popped.message
                popped.message = popped_of(mine, mine.times_delivered + 1, mine.token, mine.visible_ms)
                self._waiting.appendleft(popped)
        self._not_before = not_before

    def take_waiting(self) -> list[Popped]:
        """Take out what no listener has."""
        return self._take([popped for popped in self._held.values() if not popped.handed])

    def take_all(self) -> list[Popped]:
        """Take out everything."""
        return self._take(list(self._held.values()))

    def _take(self, chosen: list[Popped]) -> list[Popped]:
        for popped in chosen:
            self._take_out(popped)
        self._waiting.clear()
        return chosen

    def _take_out(self, popped: Popped) -> None:
        del self._held[popped.message.offset]
        self.in_flight -= popped.handed
        popped.left()

    # --- invisible time ----------------------------------------------------------------------------------------------

    def due(self, now: float) -> list[Popped]:
        """The messages whose invisible time has to be made longer now; they are busy until `renewed` or `failed`."""
        due = [popped for popped in self._held.values() if popped.renew_at <= now and not popped.busy]
        for popped in due:
            popped.busy = True
        return due

    def next_deadline(self) -> float | None:
        """When `due` will return something, or None."""
        return min((popped.renew_at for popped in self._held.values() if not popped.busy), default=None)

    def lost(self, popped: Popped) -> bool:
        """Take out a message whose handle is dead; returns whether it was here."""
        if self._held.get(popped.message.offset) is not popped:
            return False
        self._take_out(popped)
        return True


def renewed(popped: Popped, token: int, visible_ms: int, now: float, invisible_s: float) -> None:
    """Note the new handle of a message.

    Args:
        popped: the message.
        token: of the handle.
        visible_ms: when it comes again, wall clock.
        now: when the request was sent, which is before its time began.
        invisible_s: for how long it asked.
    """
    popped.message.renewed(token, visible_ms)
    popped.expires_at, popped.renew_at = now + invisible_s, now + invisible_s * RENEW_AT
    popped.busy = False


def not_renewed(popped: Popped, now: float) -> None:
    """Note that no broker could be told: it is tried again soon."""
    popped.renew_at = now + PULL_RETRY_ERROR_S
    popped.busy = False
