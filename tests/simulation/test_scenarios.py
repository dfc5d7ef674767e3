"""The scenario library: each complaint of RocketMQ's users as a programme, with its defect and without."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from testbed.simulation.engine.run import run_programme
from testbed.simulation.engine.text import parse_programme

pytestmark = pytest.mark.simulation

FILES = sorted((Path(__file__).resolve().parents[2] / "examples/scenarios").glob("*.toml"))
SHOWS = {
    "same-client-id": "double-owner",
    "reconnect-is-two-members": "orphan",
    "members-with-different-topics": "orphan",
    "unsubscribe-strands-queues": "orphan",
    "views-differ": "orphan",
    "scaling-makes-duplicates": "double-owner",
    "offsets-go-back": "nonmonotonic-commit",
    "nobody-takes-over": "orphan",
    "notification-storm": "thundering",
    "dead-locks-stall-order": "orphan",
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_complaint_is_shown_with_the_defect_and_is_none_without(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # clients and brokers complain of the faults
    programme = parse_programme(file.read_text(encoding="utf-8"))
    assert programme.cluster.quirks
    assert programme.about
    shown = [finding for finding in run_programme(programme).findings if finding.kind == SHOWS[programme.name]]
    assert shown, programme.name
    assert 1 <= len(shown[0].witness) <= 20
    assert run_programme(programme.with_quirks(())).findings == ()


@pytest.mark.walk
def test_every_quirk_has_a_programme() -> None:
    programmes = [parse_programme(file.read_text(encoding="utf-8")) for file in FILES]
    assert {programme.name for programme in programmes} == set(SHOWS)
    assert len({quirk for programme in programmes for quirk in programme.cluster.quirks}) == 9
