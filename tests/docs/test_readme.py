"""What the README shows to whoever comes first: its commands are those of the Makefile."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, text_of


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", text_of("README.md") + text_of("CONTRIBUTING.md"), re.MULTILINE))
    assert named
    assert named <= targets


def test_it_is_short_and_begins_with_for_whom_it_is_a_picture_the_alternatives_and_two_commands() -> None:
    lines = text_of("README.md").splitlines()
    assert len(lines) < 220
    starts = [next(i for i, line in enumerate(lines) if line.startswith(part)) for part in (
        "See, break and test", "- **For** developers", "![terminal", "| | rebalance-lab | RocketMQ",
        "## Two commands", "make demo", "make test", "## A first test", "## Five minutes",
    )]  # fmt: skip
    assert starts == sorted(starts)
    assert starts[4] < 35
    assert "**Not for production**" in text_of("README.md")
    assert "`pipeline`" in text_of("README.md")
