from __future__ import annotations

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from cli.group.command import MAX_MATRIX_MEMBERS, group_document, print_group, verdict
from cli.main import app
from client.admin.records import GroupInfo, GroupMemberInfo, PoppedQueue, QueueProgress
from model.absent_broker import Absence, AbsentBroker
from model.group_agreement import Disagreement, Side
from model.heartbeat import ConsumeType, MessageModel
from model.message_queue import MessageQueue
from model.subscription import SubscriptionData


def member(client_id: str, *queues: int, model: MessageModel = MessageModel.CLUSTERING) -> GroupMemberInfo:
    return GroupMemberInfo(
        client_id=client_id,
        address="10.0.0.1:5",
        subscriptions=(SubscriptionData("t"), SubscriptionData("u", "a || b")),
        strategy="AVG",
        model=model,
        consume_type=ConsumeType.PASSIVELY,
        expires_in_s=119.6,
        queues=tuple(MessageQueue("t", "broker-a", queue_id) for queue_id in queues),
        brokers=("broker-a",),
    )


def progress(queue_id: int, owner: str | None, *targets: str, committed: int | None = 7) -> QueueProgress:
    return QueueProgress(
        queue=MessageQueue("t", "broker-a", queue_id),
        min_offset=0,
        max_offset=10,
        committed=committed,
        owner=owner,
        targets=targets,
    )


MOVING = GroupInfo(
    group="g",
    version=3,
    created_ms=4,
    members=(member("c@1", 0, 1), member("c@2")),
    queues=(progress(0, "c@1", "c@1"), progress(1, "c@1", "c@2"), progress(2, None, "c@2", committed=None)),
    disagreements=(),
    unknown_strategies=(),
    unreachable=(),
)
SPLIT = replace(
    MOVING,
    disagreements=(
        Disagreement(
            what="strategy", sides=(Side(value="AVG", members=("c@1",)), Side(value="CIRCLE", members=("c@2",)))
        ),
    ),
)


POPPED = PoppedQueue(
    queue=MessageQueue("t", "broker-a", 0),
    first_unended=7,
    next_offset=10,
    in_flight=3,
    to_come_again=0,
    oldest_ms=1_540,
    next_visible_ms=58_460,
    most_attempts=2,
    handing_over=False,
    in_flight_of={"c@1": 2, "gone": 1},
)
POPPING = replace(
    MOVING,
    members=tuple(replace(member(name), consume_type=ConsumeType.POP) for name in ("c@1", "c@2")),
    queues=(progress(0, None), progress(1, None)),
    popped_queues=(POPPED,),
)


def printed(info: GroupInfo, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    print_group(info)
    return [line.split() for line in capsys.readouterr().out.splitlines() if line.strip() and "─" not in line]


def test_members_and_the_matrix_of_owners_and_targets_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(MOVING, capsys) == [
        ["group", "g"],
        ["client", "id", "address", "strategy", "mode", "subscriptions", "queues", "target", "expires", "in"],
        ["c1", "c@1", "10.0.0.1:5", "AVG", "pull", "t,", "u=a", "||", "b", "2", "1", "120", "s"],
        ["c2", "c@2", "10.0.0.1:5", "AVG", "pull", "t,", "u=a", "||", "b", "0", "2", "120", "s"],
        ["queue", "c1", "c2", "lag", "committed", "end"],
        ["t@broker-a:0", "●", "3", "7", "10"],
        ["t@broker-a:1", "✕", "○", "3", "7", "10"],
        ["t@broker-a:2", "○", "-", "-", "10"],
        ["●", "owner", "and", "target", "○", "target,", "not", "yet", "owner", "✕", "owner,", "no", "longer", "target"],
        ["lag", "6;", "not", "converged:", "2", "queues", "are", "not", "with", "their", "target", "owner"],
    ]


def test_a_group_that_shares_messages_is_shown_with_what_is_in_flight_and_without_owners(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tail = ["queues", "target", "in", "flight", "expires", "in"]
    next_in = ["next", "visible", "in", "to", "redeliver", "attempts"]
    assert printed(POPPING, capsys)[1:] == [
        ["client", "id", "address", "strategy", "mode", "subscriptions", *tail],
        ["c1", "c@1", "10.0.0.1:5", "-", "pop", "t,", "u=a", "||", "b", "0", "-", "2", "120", "s"],
        ["c2", "c@2", "10.0.0.1:5", "-", "pop", "t,", "u=a", "||", "b", "0", "-", "0", "120", "s"],
        ["queue", "lag", "committed", "end"],
        ["t@broker-a:0", "3", "7", "10"],
        ["t@broker-a:1", "3", "7", "10"],
        ["popped", "in", "flight", "with", "oldest", *next_in],
        ["t@broker-a:0", "3", "c1:", "2,", "gone:", "1", "1.5", "s", "58.5", "s", "0", "2"],
        ["lag", "6;", "3", "in", "flight;", *["members", "pop", "messages,", "so", "queues", "have", "no", "owners"]],
    ]
    document = group_document(POPPING)
    assert document["in_flight"] == 3
    assert [(each["mode"], each["in_flight"]) for each in document["members"]] == [("pop", 2), ("pop", 0)]  # type: ignore[attr-defined]
    assert document["popped_queues"][0]["oldest_ms"] == 1_540  # type: ignore[index]


def test_a_group_that_broadcasts_is_shown_without_owners_and_targets_as_it_has_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reader = member("c@1", model=MessageModel.BROADCASTING)
    assert printed(replace(MOVING, members=(reader,), queues=(progress(0, None, "c@1"),)), capsys)[2:-1] == [
        ["c1", "c@1", "10.0.0.1:5", "-", "broadcasting", "t,", "u=a", "||", "b", "-", "-", "120", "s"],
        ["queue", "lag", "committed", "end"],
        ["t@broker-a:0", "3", "7", "10"],
    ]


def test_what_members_disagree_about_is_said_below_them_with_their_labels(capsys: pytest.CaptureFixture[str]) -> None:
    line = "members disagree about the strategy: AVG (c1), CIRCLE (c2): no member consumes some of the queues"
    assert printed(SPLIT, capsys)[4] == line.split()
    assert group_document(SPLIT)["disagreements"] == [
        {
            "what": "strategy",
            "sides": [{"value": "AVG", "members": ["c@1"]}, {"value": "CIRCLE", "members": ["c@2"]}],
            "consequence": "no member consumes some of the queues",
        }
    ]


def test_a_large_group_is_listed_instead_of_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    members = tuple(member(f"c@{n:02}") for n in range(MAX_MATRIX_MEMBERS + 1))
    queues = (progress(0, "c@01", "c@01"), progress(1, "gone", "c@02", "c@12"), progress(2, None))
    lines = printed(replace(MOVING, members=members, queues=queues), capsys)
    assert lines[-5:-1] == [
        ["queue", "owner", "target", "lag", "committed", "end"],
        ["t@broker-a:0", "c2", "c2", "3", "7", "10"],
        ["t@broker-a:1", "gone", "c3,", "c13", "3", "7", "10"],
        ["t@broker-a:2", "-", "-", "3", "7", "10"],
    ]


def test_the_queues_of_an_absent_broker_keep_their_rows_and_their_place_in_the_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker = AbsentBroker(
        cluster="c", broker_name="b2", broker_id=0, address="h:1", away_s=6.0, reason="closed its connection"
    )
    info = replace(
        replace(MOVING, members=(member("c@1", 0),), queues=(progress(0, "c@1", "c@1"),)),
        absence=Absence(brokers=(broker,), known_for_s=60.0, unable={}),
        absent_queues=(MessageQueue("t", "b2", 0),),
    )
    rows = printed(info, capsys)
    assert ["t@b2:0", "away"] in [[cell for cell in row if cell not in ("", "-")] for row in rows]
    assert verdict(info).endswith(
        "converged, but for the queues that are away; 1 queue is away: broker b2 at h:1 closed its connection 6 s ago"
    )
    assert group_document(info)["absent_queues"]
    old = replace(MOVING, absence=Absence(brokers=(), known_for_s=None, unable={"ns:1": "too old"}))
    print_group(old)
    assert capsys.readouterr().err == "note: no name server can report brokers that are away (ns:1: too old)\n"


def test_a_group_without_members_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(replace(MOVING, members=(), queues=(progress(0, None),)), capsys)
    assert lines[0] == ["group", "g", "has", "no", "members"]
    assert lines[-1] == ["lag", "3;", "no", "members"]


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (replace(MOVING, queues=(progress(0, "c@1", "c@1"),)), "lag 3; converged"),
        (
            replace(MOVING, queues=(replace(progress(0, "c@1", "c@1"), min_offset=9),)),
            "lag 1; 2 messages were deleted before the group read them; converged",
        ),
        (SPLIT, "lag 6; not converged: 2 queues are not with their target owner; members disagree about strategy"),
        (
            replace(MOVING, queues=(progress(0, "c@1", "c@1"), progress(1, None))),
            "lag 6; not converged: 1 queue has no member that may consume them",
        ),
        (
            replace(MOVING, unknown_strategies=("MINE",)),
            "lag 6; target unknown: strategy MINE is neither built in nor installed here",
        ),
        (
            replace(MOVING, members=(member("c@1", model=MessageModel.BROADCASTING),)),
            "broadcasting: every member reads every queue, and keeps its own offsets",
        ),
        (
            replace(MOVING, queues=(), unreachable=("broker-b",)),
            "lag 0; converged; broker broker-b does not answer, so its queues are missing",
        ),
        (
            replace(
                MOVING, queues=(), members=(replace(member("c@1"), away_at={"broker-a": "gone", "broker-b": "cut"}),)
            ),
            "lag 0; converged; c@1 does not answer (broker-a: gone, broker-b: cut)",
        ),
    ],
)
def test_the_last_line_is_the_verdict(info: GroupInfo, text: str) -> None:
    assert verdict(info) == text


def test_damaged_messages_have_a_column_and_a_place_in_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    print_group(MOVING)
    assert "damaged" not in capsys.readouterr().out
    print_group(replace(MOVING, queues=(replace(MOVING.queues[0], damaged=275), *MOVING.queues[1:])))
    text = capsys.readouterr().out
    assert "damaged" in text
    assert "275 messages of its queues are damaged or missing" in text


def test_the_document_has_the_record_and_what_follows_from_it() -> None:
    document = group_document(MOVING)
    assert (document["group"], document["balanced"], document["broadcasting"], document["lag"]) == (
        "g",
        False,
        False,
        6,
    )
    assert isinstance(document["queues"], list)
    assert document["queues"][1] == {
        "queue": "t@broker-a:1",
        "min_offset": 0,
        "max_offset": 10,
        "committed": 7,
        "owner": "c@1",
        "targets": ["c@2"],
        "damaged": 0,
        "start": None,
        "in_flight": None,
        "lag": 3,
        "deleted": 0,
        "settled": False,
    }


@pytest.mark.parametrize(("arguments", "complaint"), [(["delete"], "Missing argument"), ([], "")])
def test_wrong_usage_is_reported_before_anything_is_asked(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, ["group", *arguments])
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())


def test_a_group_is_not_deleted_without_yes_and_the_message_says_so() -> None:
    result = CliRunner().invoke(app, ["group", "delete", "g"])
    assert result.exit_code == 1
    assert "deletes the committed offsets of g on every topic: confirm with --yes" in " ".join(result.stderr.split())


def test_the_help_of_delete_says_what_is_lost_and_what_stays() -> None:
    text = " ".join(CliRunner().invoke(app, ["group", "delete", "--help"]).stdout.split()).replace("- ", "-")
    assert "Failed messages that wait for their next attempt are deleted" in text
    assert "Its dead-letter messages stay" in text
