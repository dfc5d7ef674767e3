"""What `rlab group mode` prints, and which words it does not take."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from cli.group.mode import Mode, mode, outcome, print_assignment, set_and_show
from client.admin.admin import Admin
from client.admin.records import NO_ASSIGNMENT, AssignmentInfo, TopicModeInfo
from model.assignment import RequestMode
from model.errors import GroupNotExist
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.unit.client.admin.admin_cluster import administer

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


def test_a_mode_that_no_member_follows_is_not_said_to_have_begun() -> None:
    assert outcome("g", "t", Mode.pop, [], 3) == "group g pops t from now on"
    assert outcome("g", "t", Mode.pop, ["c1"], 1).startswith(
        "the mode is set, but its members share out queues by themselves and go on pulling t"
    )
    assert "but 2 of its 3 members, e.g. c1, share out" in outcome("g", "t", Mode.pull, ["c1", "c2"], 3)


@pytest.mark.simulation
def test_a_group_that_no_one_knows_is_refused_and_members_on_their_own_are_named(tmp_path: Path) -> None:
    async def scenario(cluster: SimulatedCluster, admin: Admin) -> None:
        await cluster.create_topic("t", queues=2)
        with pytest.raises(GroupNotExist, match="no broker knows group 'typo'"):
            await set_and_show(admin, "typo", "t", Mode.pop, None)
        assert (await admin.assignment("typo")).modes == ()
        consumer = await cluster.start_consumer("g", "t")
        await cluster.start_consumer("g", "t", assignment="broker")
        info, alone, members = await set_and_show(admin, "g", "t", Mode.pop, 2)
        assert [(each.topic, each.mode, each.pop_share_queue_num) for each in info.modes] == [("t", "POP", 2)]
        assert (alone, members) == ([consumer.client_id], 2)

    administer(scenario, tmp_path)
