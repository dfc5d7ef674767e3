"""The file of a group's offsets: what is no such file is refused before a broker is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.group.offsets import offsets_document, read_offsets
from client.admin.records import GroupInfo, QueueProgress
from model.errors import ConfigError, InvalidParameter
from model.message_queue import MessageQueue

GOOD = {"format": 1, "group": "g", "offsets": [["t", "a", 0, 5], ["t", "a", 1, 5], ["u", "b", 0, 7]]}


def written(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def info_of(*queues: tuple[MessageQueue, int | None], unreachable: tuple[str, ...] = ()) -> GroupInfo:
    return GroupInfo(
        group="g",
        version=1,
        created_ms=0,
        members=(),
        disagreements=(),
        unknown_strategies=(),
        queues=tuple(
            QueueProgress(queue=queue, min_offset=0, max_offset=9, committed=committed, owner=None)
            for queue, committed in queues
        ),
        unreachable=unreachable,
    )


def test_what_was_committed_is_exported_that_of_retries_too_and_read_again(tmp_path: Path) -> None:
    first, second, again = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1), MessageQueue("%RETRY%g", "a", 0)
    document = offsets_document(info_of((first, 0), (second, None), (again, 3)))
    assert document == {"format": 1, "group": "g", "offsets": [["t", "a", 0, 0], ["%RETRY%g", "a", 0, 3]]}
    assert read_offsets(written(tmp_path / "file", document)) == ("g", {("t", 0): [first], ("%RETRY%g", 3): [again]})


def test_offsets_that_are_not_all_known_are_not_exported() -> None:
    with pytest.raises(ConfigError, match="their offsets are missing: b, c"):
        offsets_document(info_of((MessageQueue("t", "a", 0), 0), unreachable=("b", "c")))


def test_queues_of_one_topic_with_one_offset_are_reset_together(tmp_path: Path) -> None:
    assert read_offsets(written(tmp_path / "file", GOOD)) == (
        "g",
        {("t", 5): [MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)], ("u", 7): [MessageQueue("u", "b", 0)]},
    )


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "cannot read"),
        ({"format": 1}, "cannot read"),
        (GOOD | {"format": 2}, "has format 2"),
        (GOOD | {"offsets": [["t", "a", 0]]}, "cannot read"),
        (GOOD | {"offsets": [["t", "a", 0, -1]]}, "whole numbers"),
        (GOOD | {"offsets": [["t", "a", 0, 2**63]]}, "whole numbers"),
        (GOOD | {"offsets": [["t", "a", True, 1]]}, "whole numbers"),
        (GOOD | {"offsets": [["t", "a", 0, 1.5]]}, "whole numbers"),
        (GOOD | {"offsets": [["a/b", "a", 0, 1]]}, "topic"),
    ],
)
def test_what_was_not_exported_is_refused(tmp_path: Path, document: Any, why: str) -> None:
    with pytest.raises((ConfigError, InvalidParameter), match=why):
        read_offsets(written(tmp_path / "file", document))
    with pytest.raises(ConfigError, match="cannot read"):
        read_offsets(tmp_path / "missing")
