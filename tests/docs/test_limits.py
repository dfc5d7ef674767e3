"""The page of limits has the numbers that the code has."""

from __future__ import annotations

import re

import pytest

from model import access_limits, grpc_limits, limits, replica_limits
from tests.docs.pages import table_of

pytestmark = pytest.mark.walk

UNITS = {"MiB": 2**20, "s": 1, "bytes": 1}
ROWS = [
    row
    for heading in ("Connections", "Requests and bytes", "Stored and remembered")
    for row in table_of("docs/limits.md", heading)
    if row["name"]
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_each_limit_of_the_page_is_that_of_the_code(row: dict[str, str]) -> None:
    number, _, unit = row["limit"].partition(" ")
    [value] = [
        vars(each)[row["name"]]
        for each in (limits, access_limits, grpc_limits, replica_limits)
        if row["name"] in vars(each)
    ]
    assert value == int(number.replace(",", "")) * UNITS.get(unit, 1)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_each_limit_of_the_page_has_a_test(row: dict[str, str]) -> None:
    assert re.fullmatch(r"test_\w+", row["test"].strip("`"))
