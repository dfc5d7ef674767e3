"""Children that stand in for daemons, and are quicker at it."""

from __future__ import annotations

import sys

import pytest

from model.errors import ServiceNotAvailable
from process.children import broker_name, children

SAYS = """import sys; print('{"address": "h:1", "more": 7}', flush=True); sys.stdin.read()"""
ENDS = "raise SystemExit(3)"


def test_brokers_are_lettered_as_spreadsheet_columns_are() -> None:
    assert [broker_name(index) for index in (0, 1, 25, 26, 51, 52, 701, 702)] == [
        f"broker-{letters}" for letters in ("a", "b", "z", "aa", "az", "ba", "zz", "aaa")
    ]


@pytest.mark.process
@pytest.mark.asyncio
async def test_children_announce_their_addresses_and_are_stopped_with_the_block() -> None:
    async with children([(name, [sys.executable, "-c", SAYS]) for name in ("one", "two")]) as started:
        assert [(child.name, child.address, child.announced["more"]) for child in started] == [
            ("one", "h:1", 7),
            ("two", "h:1", 7),
        ]
    assert all(child.process.returncode is not None for child in started)


@pytest.mark.process
@pytest.mark.asyncio
async def test_if_one_does_not_start_the_others_are_stopped() -> None:
    commands = [("good", [sys.executable, "-c", SAYS]), ("bad", [sys.executable, "-c", ENDS])]
    with pytest.raises(ServiceNotAvailable, match=r"bad did not start \(exit code 3\)"):
        async with children(commands):
            raise AssertionError("the block does not run")
