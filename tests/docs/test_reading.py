"""docs/reading.md leads through a rebalance in ten stops; the lines that it quotes are in the files that it names."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, text_of

pytestmark = pytest.mark.walk

STOP = re.compile(r"^### (\d+)\. `([\w/]+\.py)`: .+\n\n```text\n((?:.+\n)+?)```$", re.MULTILINE)
STOPS = STOP.findall(text_of("docs/reading.md"))


def test_there_are_ten_stops_in_order() -> None:
    assert [int(number) for number, _, _ in STOPS] == list(range(1, 11))
    assert len({path for _, path, _ in STOPS}) == 10


@pytest.mark.parametrize(("path", "quoted"), [(path, quoted) for _, path, quoted in STOPS])
def test_each_stop_quotes_two_lines_of_its_file(path: str, quoted: str) -> None:
    lines = [line.strip() for line in (ROOT / path).read_text(encoding="utf-8").splitlines()]
    wanted = quoted.splitlines()
    assert len(wanted) == 2
    assert [line for line in wanted if line not in lines] == []
