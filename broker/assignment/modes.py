"""Where a broker keeps how groups get messages: one table beside the others of its metadata."""

from __future__ import annotations

from broker.assignment.group_assignments import GroupAssignments, TopicMode
from broker.durability.metadata import MetadataStore
from model.assignment import RequestMode

_SCHEMA = """
create table if not exists request_modes (
    group_name text not null, topic text not null, mode text not null, pop_share_queue_num integer not null,
    primary key (group_name, topic)
) without rowid;
"""


class RequestModeStore:
    """Reads and changes the table; a change takes effect with the next commit.

    Args:
        metadata: the open file.
    """

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        metadata.add_tables(_SCHEMA)

    def load(self, assignments: GroupAssignments) -> None:
        """Take over what earlier runs stored."""
        rows = self._metadata.rows("select group_name, topic, mode, pop_share_queue_num from request_modes")
        for group, topic, mode, share in rows:
            assignments.set_mode(group, topic, TopicMode(mode=RequestMode(mode), pop_share_queue_num=share))

    def save(self, group: str, topic: str, mode: TopicMode) -> None:
        """Store how a group gets messages of a topic."""
        row = (group, topic)
        statement = "insert or replace into request_modes values (?, ?, ?, ?)"
        self._metadata.change(("request_modes", *row), statement, *row, mode.mode.value, mode.pop_share_queue_num)

    def delete_group(self, group: str, topics: list[str]) -> None:
        """Forget the modes of a group that is deleted."""
        for topic in topics:
            statement = "delete from request_modes where group_name = ? and topic = ?"
            self._metadata.change(("request_modes", group, topic), statement, group, topic)
