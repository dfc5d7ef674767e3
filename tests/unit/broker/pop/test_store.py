"""What is in flight by POP outlives the process: the last snapshot, and the journal since."""

from __future__ import annotations

from pathlib import Path

from broker.durability.metadata import MetadataStore
from broker.pop.journal import WindowRow
from broker.pop.store import PopStore

ROWS = [WindowRow(2, "g", "t", 0, b"two"), WindowRow(1, "g", "t", 1, b"one")]


def test_a_snapshot_and_the_entries_after_it_come_back_in_order(tmp_path: Path) -> None:
    with MetadataStore(tmp_path) as metadata:
        store = PopStore(metadata)
        store.journal.append((0, "before"))
        metadata.commit()
        store.journal.append((1, "in the snapshot"))
        store.save_windows(ROWS)
        store.journal.append((2, "after"))
        metadata.commit()
        store.journal.append((3, "never committed"))
    with MetadataStore(tmp_path) as metadata:
        store = PopStore(metadata)
        assert list(store.windows()) == ROWS[::-1]
        assert list(store.journal.entries()) == [(2, "after")]


def test_a_new_snapshot_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    with MetadataStore(tmp_path) as metadata:
        store = PopStore(metadata)
        store.save_windows(ROWS)
        metadata.commit()
        store.save_windows(ROWS[:1])
        store.save_windows(ROWS[1:])
        metadata.commit()
        assert list(store.windows()) == ROWS[1:]
