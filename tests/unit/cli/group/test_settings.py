"""What `rlab group set` takes, and how settings are shown; on real processes it is tests/tcp/test_cli_commands.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
import typer

from cli.group.command import group_document, verdict
from cli.group.settings import _attempts, _delays, print_settings, set_group
from client.admin.records import GroupInfo
from model.group_settings import DEFAULT_SETTINGS, GroupSettings

INFO = GroupInfo(
    group="g",
    version=1,
    created_ms=1,
    members=(),
    queues=(),
    disagreements=(),
    unknown_strategies=(),
    unreachable=(),
    settings={"broker-a": DEFAULT_SETTINGS, "broker-b": DEFAULT_SETTINGS},
)
OFF = GroupSettings(consume=False, max_attempts=3)


def test_settings_are_shown_where_they_are_not_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    print_settings(INFO)
    print_settings(replace(INFO, settings={}))
    assert capsys.readouterr().out == ""
    print_settings(replace(INFO, settings={"broker-a": OFF, "broker-b": OFF}))
    assert capsys.readouterr().out == f"settings: {OFF}\n"


def test_brokers_with_different_settings_are_shown_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    half = replace(INFO, settings={"broker-a": OFF, "broker-b": DEFAULT_SETTINGS})
    print_settings(half)
    assert capsys.readouterr().out.splitlines() == [
        "settings on broker-a: consume=off broadcast=on retry_queues=1 max_attempts=3 fifo=off retry_delays=default",
        "settings on broker-b: consume=on broadcast=on retry_queues=1 max_attempts=own fifo=off retry_delays=default",
        "brokers have different settings: repeat rlab group set g",
    ]
    assert verdict(half).startswith("switched off on broker-a; lag 0")
    delivery = {"fifo": False, "retry_delays_ms": []}
    assert group_document(half)["settings"] == {
        "broker-a": {"consume": False, "broadcast": True, "retry_queues": 1, "max_attempts": 3, **delivery},
        "broker-b": {"consume": True, "broadcast": True, "retry_queues": 1, "max_attempts": -1, **delivery},
    }


@pytest.mark.parametrize("text", ["-1", "65001", "many", "1.5", "²"])
def test_attempts_are_a_number_or_own(text: str) -> None:
    assert (_attempts(None), _attempts("own"), _attempts("0"), _attempts("65000")) == (None, -1, 0, 65_000)
    with pytest.raises(typer.BadParameter, match="--max-attempts must be 0 to 65000, or own"):
        _attempts(text)


@pytest.mark.parametrize("text", ["", "5", "1s,", "1s,-2s", "13h", ",".join(["1s"] * 33), "1 s;2s"])
def test_delays_are_times_separated_by_commas_or_default(text: str) -> None:
    assert (_delays(None), _delays("default"), _delays("0s"), _delays("100ms,1.5s,12h")) == (
        None,
        [],
        [0],
        [100, 1_500, 43_200_000],
    )
    with pytest.raises(typer.BadParameter, match="--retry-delays must be default, or up to 32 times"):
        _delays(text)


def test_nothing_to_set_is_a_mistake() -> None:
    with pytest.raises(typer.BadParameter, match="use at least one of --consume"):
        set_group("g")
