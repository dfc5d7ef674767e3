"""What the README shows to whoever comes first: its script runs, and its commands are those of the Makefile."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, code_blocks, text_of
from tests.tcp.rlab_process import TIMEOUT_S, environment, stopped_cleanly


@pytest.mark.process
@pytest.mark.tcp
def test_the_shown_script_prints_what_is_shown(tmp_path: Path) -> None:
    (code,) = code_blocks("README.md", "python")
    shown = next(block for block in code_blocks("README.md", "text") if block.startswith("stored at"))
    with stopped_cleanly("cluster", "--port", "0", "--brokers", "2", cwd=tmp_path) as cluster:
        script = code.replace("127.0.0.1:9876", cluster.address)
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
    assert _without_queue(done.stdout) == _without_queue(shown)


def _without_queue(output: str) -> str:
    return re.sub(r"greetings@broker-[ab]:\d", "greetings@broker-?:?", output)


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z]+)", text_of("README.md") + text_of("CONTRIBUTING.md"), re.MULTILINE))
    assert named
    assert named <= targets


def test_the_shown_end_of_a_demo_has_the_columns_and_words_that_it_has_now() -> None:
    report = (ROOT / "cli" / "demo" / "report.py").read_text(encoding="utf-8")
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
