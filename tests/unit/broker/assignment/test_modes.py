"""Modes are stored with the next commit, and the newest of a topic is the one that is read again."""

from __future__ import annotations

from pathlib import Path

from broker.assignment.group_assignments import GroupAssignments, TopicMode
from broker.assignment.modes import RequestModeStore
from broker.durability.metadata import MetadataStore
from model.assignment import RequestMode

POP = TopicMode(mode=RequestMode.POP, pop_share_queue_num=2)
PULL = TopicMode(mode=RequestMode.PULL)


def loaded(directory: Path) -> dict[str, TopicMode]:
    assignments = GroupAssignments()
    with MetadataStore(directory) as metadata:
        RequestModeStore(metadata).load(assignments)
    return assignments.modes_of("g")


def test_modes_outlive_the_process_and_are_deleted_with_their_group(tmp_path: Path) -> None:
    with MetadataStore(tmp_path) as metadata:
        store = RequestModeStore(metadata)
        store.save("g", "t", PULL)
        store.save("g", "t", POP)
        store.save("g", "u", PULL)
        store.save("h", "t", POP)
        metadata.commit()
        store.save("g", "v", POP)  # never committed
    assert loaded(tmp_path) == {"t": POP, "u": PULL}
    with MetadataStore(tmp_path) as metadata:
        RequestModeStore(metadata).delete_group("g", ["t", "u"])
        metadata.commit()
    assert loaded(tmp_path) == {}
