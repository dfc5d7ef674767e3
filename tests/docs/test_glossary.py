"""docs/glossary.md gives each term one sense, in a sentence or two, and a file that decides it."""

from __future__ import annotations

import re
from collections import Counter

from tests.docs.pages import headings, table_of

PAGE = "docs/glossary.md"


def rows() -> list[dict[str, str]]:
    return [row for heading in headings(PAGE)[1:] for row in table_of(PAGE, heading)]


def test_every_term_has_one_sense() -> None:
    terms = Counter(term for row in rows() for term in row["term"].split(", "))
    assert {term: n for term, n in terms.items() if n > 1} == {}
    assert {"rebalance", "pass", "lease", "fencing token", "delivery token", "invisible", "run id"} <= set(terms)


def test_every_term_is_reported_in_a_sentence_or_two_and_names_a_file() -> None:
    for row in rows():
        sentences = re.findall(r"\.(?= [A-Z]|$)", row["meaning"])
        assert 1 <= len(sentences) <= 3, row
        assert row["meaning"].endswith("."), row
        assert re.fullmatch(r"[a-z_]+/[\w/-]+\.(py|md)", row["decided in"]), row
