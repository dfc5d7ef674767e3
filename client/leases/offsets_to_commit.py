"""The offsets that a consumer has to commit: those that its brokers have not confirmed yet. Pure.

Invariant: a queue is dirty exactly while its offset differs from the one that was last confirmed as persisted. So a
persist that fails, or whose answer is lost, needs no handling: the offset is still dirty at the next one.

    update(q, 5)             dirty_offsets() == {q: 5}
    update(q, 8)             dirty_offsets() == {q: 8}
    confirm({q: 5})          dirty_offsets() == {q: 8}        the answer to the first of two persists
    confirm({q: 8})          dirty_offsets() == {}

RocketMQ: RemoteBrokerOffsetStore, which sends every offset every 5 s one-way and never checks whether one arrived.
"""

from __future__ import annotations

from collections.abc import Mapping

from model.message_queue import MessageQueue


class OffsetsToCommit:
    """Offsets to commit, by owned queue; an offset is the first one that is not processed.

    Protocol of use: at most one persist of a queue is in progress at a time, and its answer is given to `confirm`.
    """

    def __init__(self) -> None:
        """Make an empty table."""
        self._offsets: dict[MessageQueue, int] = {}
        self._confirmed: dict[MessageQueue, int] = {}
        self._resets: dict[MessageQueue, None] = {}

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Move a queue forward; a lower offset than the known one is ignored, because batches finish in any order."""
        if offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def reset(self, queue: MessageQueue, offset: int) -> None:
        """Put a queue at any offset, also an earlier one: after a seek, or when the broker lost later messages."""
        self._offsets[queue] = offset
        self._resets[queue] = None
        self._confirmed.pop(queue, None)  # a reset is sent even to where we believe the broker is

    def offset_of(self, queue: MessageQueue) -> int | None:
        """The offset of a queue; None if there is none, which is not a number that could be mistaken for one."""
        return self._offsets.get(queue)

    def queues(self) -> list[MessageQueue]:
        """The queues with an offset."""
        return list(self._offsets)

    def dirty_offsets(self) -> dict[MessageQueue, int]:
        """The offsets to persist, as a new dict; the same again until `confirm`."""
        return {queue: offset for queue, offset in self._offsets.items() if self._confirmed.get(queue) != offset}

    def split_dirty(self) -> list[tuple[bool, dict[MessageQueue, int]]]:
        """The offsets of `dirty_offsets`, in parts that are not empty: (whether they are resets, offsets)."""
        dirty = self.dirty_offsets()
        if not dirty:
            return []  # the usual case of an idle consumer
        parts: dict[bool, dict[MessageQueue, int]] = {False: {}, True: {}}
        for queue, offset in dirty.items():
            parts[queue in self._resets][queue] = offset
        return [(reset, offsets) for reset, offsets in parts.items() if offsets]

    def is_reset(self, queue: MessageQueue) -> bool:
        """Whether the broker may hold a greater offset, so that the persist must be flagged as a reset."""
        return queue in self._resets

    def confirm(self, persisted: Mapping[MessageQueue, int]) -> None:
        """Record that a broker stored a part of `dirty_offsets`; queues that were forgotten in between are ignored."""
        for queue, offset in persisted.items():
            if queue in self._offsets:
                self._confirmed[queue] = offset
                # The answer to a persist from before the reset may come in now; the flag has to outlive it.
                if offset <= self._offsets[queue]:
                    self._resets.pop(queue, None)

    def confirmed(self, queue: MessageQueue) -> int | None:
        """The offset that the broker is known to have stored last; None if it has confirmed none."""
        return self._confirmed.get(queue)

    def forget(self, queue: MessageQueue) -> None:
        """Drop a queue that is released; call it after its last persist, because a dirty offset is lost."""
        self._offsets.pop(queue, None)
        self._confirmed.pop(queue, None)
        self._resets.pop(queue, None)
