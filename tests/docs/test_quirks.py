"""docs/quirks.md lists every quirk, and tells which of them something reads."""

from __future__ import annotations

import pytest

from model.quirks import Quirk
from tests.docs.pages import ROOT, table_of

pytestmark = pytest.mark.walk

SHIPPED = ("namesrv", "broker", "client", "replica")


def test_every_quirk_is_listed_and_marked_as_what_it_is() -> None:
    code = "".join(path.read_text(encoding="utf-8") for folder in SHIPPED for path in (ROOT / folder).rglob("*.py"))
    # A mention in a docstring is in backquotes; code that reads a quirk is not.
    read = {quirk.value for quirk in Quirk if f"Quirk.{quirk} in " in code or f"Quirk.{quirk} not in " in code}
    states = {row["quirk"]: row["state"] for row in rows()}
    assert states == {quirk.value: "works" if quirk.value in read else "not yet" for quirk in Quirk}


def test_every_quirk_that_works_has_a_test_that_shows_it() -> None:
    assert all(row["shown by"] for row in rows() if row["state"] == "works")


def rows() -> list[dict[str, str]]:
    return table_of("docs/quirks.md", None)
