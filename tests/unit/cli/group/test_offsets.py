"""The file of a group's offsets: what is no such file is refused before a broker is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.group.offsets import offsets_of
from model.errors import ConfigError, InvalidParameter
from model.message_queue import MessageQueue

GOOD = {"format": 1, "group": "g", "offsets": [["t", "a", 0, 5], ["t", "a", 1, 5], ["u", "b", 0, 7]]}


def written(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_queues_of_one_topic_with_one_offset_are_reset_together(tmp_path: Path) -> None:
    assert offsets_of(written(tmp_path / "file", GOOD)) == (
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
        offsets_of(written(tmp_path / "file", document))
    with pytest.raises(ConfigError, match="cannot read"):
        offsets_of(tmp_path / "missing")
