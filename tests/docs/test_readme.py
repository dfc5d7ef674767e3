"""What the README shows to whoever comes first: its commands are those of the Makefile."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, code_blocks, text_of


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", text_of("README.md") + text_of("CONTRIBUTING.md"), re.MULTILINE))
    assert named
    assert named <= targets


def test_the_shown_end_of_a_demo_has_the_columns_and_words_that_it_has_now() -> None:
    report = (ROOT / "testbed" / "demo" / "report.py").read_text(encoding="utf-8")
    (table,) = (block for block in code_blocks("README.md", "text") if block.split()[:2] == ["step", "cause"])
    assert table.splitlines()[0].split() == ["step", "cause", "trigger", "members", "moved", "converged"]
    for words in ("messages acknowledged", "The group converged after every step.", "Queues with two owners"):
        assert words in table
        assert words in report


def test_it_is_short_and_begins_with_what_it_is_two_commands_a_picture_and_five_minutes() -> None:
    lines = text_of("README.md").splitlines()
    assert len(lines) < 200
    starts = [next(i for i, line in enumerate(lines) if line.startswith(part)) for part in (
        "A small, real message-queue cluster", "## Two commands", "make demo", "make test", "![", "## Five minutes",
    )]  # fmt: skip
    assert starts == sorted(starts)
    assert starts[-1] < 30
    assert "`pipeline/`" in text_of("README.md")
