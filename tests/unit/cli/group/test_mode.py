"""What `rlab group mode` prints, and which words it does not take."""

from __future__ import annotations

import pytest
import typer

from cli.group.mode import Mode, mode, print_assignment
from client.admin.records import NO_ASSIGNMENT, AssignmentInfo, TopicModeInfo
from model.assignment import RequestMode

INFO = AssignmentInfo(
    coordinator="broker-a",
    version=17,
    members={},
    modes=(
        TopicModeInfo(topic="bills", mode=RequestMode.PULL, pop_share_queue_num=-1),
        TopicModeInfo(topic="orders", mode=RequestMode.POP, pop_share_queue_num=2),
        TopicModeInfo(topic="trips", mode=RequestMode.POP, pop_share_queue_num=-1),
    ),
)


def test_who_shares_out_is_shown_with_what_is_popped(capsys: pytest.CaptureFixture[str]) -> None:
    print_assignment(INFO)
    assert capsys.readouterr().out.splitlines() == [
        "assignment 17 by broker broker-a",
        "popped: orders (own and of 2 more members), trips (all queues)",
    ]


def test_nothing_is_shown_of_a_group_that_shares_for_itself(capsys: pytest.CaptureFixture[str]) -> None:
    print_assignment(NO_ASSIGNMENT)
    assert capsys.readouterr().out == ""


def test_half_a_command_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="or neither"):
        mode("g", "t")
    with pytest.raises(typer.BadParameter, match="needs pop"):
        mode("g", "t", Mode.pull, share=2)
