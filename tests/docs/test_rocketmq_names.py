"""docs/rocketmq-names.md is made from the docstrings, and has each name that articles about the rebalance use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, text_of
from tools.rocketmq_names import BY_HAND, page, places

pytestmark = pytest.mark.walk

OF_ARTICLES = Path(__file__).with_name("names_of_articles.txt").read_text(encoding="utf-8").split()


def test_the_page_is_the_one_that_the_docstrings_make() -> None:
    assert text_of("docs/rocketmq-names.md") == page(), "run python -m tools.rocketmq_names > docs/rocketmq-names.md"


def test_each_name_of_the_articles_has_a_place_or_a_reason() -> None:
    assert len(OF_ARTICLES) == 117
    assert [name for name in OF_ARTICLES if not places().get(name)] == []


@pytest.mark.parametrize("name", BY_HAND)
def test_a_place_that_was_written_by_hand_is_there(name: str) -> None:
    files = re.findall(r"`([\w/]+\.(?:py|md))`", BY_HAND[name])
    texts = [(ROOT / file).read_text(encoding="utf-8") for file in files]
    assert files or "no place" in BY_HAND[name]
    symbols = re.findall(r"`([A-Za-z_]\w+)`", BY_HAND[name])
    assert [each for each in symbols if not any(each in text for text in texts)] == []
