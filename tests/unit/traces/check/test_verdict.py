from __future__ import annotations

import pytest

from tests.unit.traces.check.histories import checkers, clean, numbered
from traces.check.verdict import MEANING, Answer, Rule

pytestmark = pytest.mark.walk


def test_every_rule_says_in_words_what_breaks_it() -> None:
    assert set(MEANING) == set(Rule)


def test_a_verdict_answers_for_each_rule() -> None:
    verdict = checkers(numbered(clean()))
    assert verdict.ok
    assert [verdict.of(rule).answer for rule in Rule] == [Answer.YES] * len(Rule)
