"""Committed offsets of groups. Pure. RocketMQ: ConsumerOffsetManager.

A commit never goes backwards, except when it is flagged as a reset. RocketMQ accepts such a commit and logs it, so a
late commit of a former owner makes the new owner consume messages a second time.
"""

from __future__ import annotations

from model.errors import OffsetRegression, SystemBusy
from model.limits import MAX_GROUPS
from model.quirks import Quirk


class OffsetTable:
    """group -> (topic, queue id) -> offset of the next message to consume."""

    def __init__(self, *, quirks: frozenset[Quirk] = frozenset()) -> None:
        self._offsets: dict[str, dict[tuple[str, int], int]] = {}
        self._may_go_back = Quirk.OFFSETS_GO_BACK in quirks

    def restore(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Restore an offset that an earlier run of the broker stored."""
        self._offsets.setdefault(group, {})[(topic, queue_id)] = offset

    def read(self, group: str, topic: str, queue_id: int) -> int | None:
        """The committed offset, or None if there is none."""
        return self._offsets.get(group, {}).get((topic, queue_id))

    def commit(self, group: str, topic: str, queue_id: int, offset: int, *, reset: bool = False) -> bool:
        """Store an offset; returns whether it differs from the stored one, so that it has to be made durable.

        Raises:
            OffsetRegression: the offset is below the stored one and not flagged as a reset.
            SystemBusy: too many groups have offsets.
        """
        offsets = self._offsets.get(group)
        if offsets is None:
            if len(self._offsets) >= MAX_GROUPS:
                raise SystemBusy(f"this broker keeps offsets of {MAX_GROUPS} groups already")
            offsets = self._offsets[group] = {}
        stored_offset = offsets.get((topic, queue_id))
        if stored_offset == offset:
            return False
        if stored_offset is not None and offset < stored_offset and not reset and not self._may_go_back:
            raise OffsetRegression(
                f"group {group!r} has committed {stored_offset} on {topic}:{queue_id}; {offset} would go back. "
                "To consume again on purpose, reset the group"
            )
        offsets[(topic, queue_id)] = offset
        return True

    def groups(self) -> list[str]:
        """Groups with a committed offset, sorted."""
        return sorted(self._offsets)

    def of_group(self, group: str) -> list[tuple[str, int, int]]:
        """(topic, queue id, offset) of one group, sorted."""
        return sorted((topic, queue_id, offset) for (topic, queue_id), offset in self._offsets.get(group, {}).items())

    def delete_group(self, group: str) -> None:
        """Forget all offsets of a group; nothing if it has none."""
        self._offsets.pop(group, None)

    def delete_topic(self, topic: str) -> None:
        """Forget every group's offsets of a topic that is deleted."""
        for group, offsets in list(self._offsets.items()):
            for key in [key for key in offsets if key[0] == topic]:
                del offsets[key]
            if not offsets:
                del self._offsets[group]  # an empty entry would still count against MAX_GROUPS
