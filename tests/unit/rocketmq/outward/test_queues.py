"""Locks, committed offsets and questions about offsets of our client at brokers of RocketMQ."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest

from remoting.request_code import RequestCode
from tests.unit.rocketmq.outward.test_edge import Server
from tests.unit.rocketmq.outward.test_members import joined, locks


@pytest.mark.parametrize(
    ("start", "topic", "code"),
    [("LAST_OFFSET", "t", 30), ("FIRST_OFFSET", "t", 31), ("TIMESTAMP", "t", 29), ("LAST_OFFSET", "%RETRY%g", 31)],
)
def test_a_group_without_a_commit_begins_where_its_member_says(start: str, topic: str, code: int) -> None:
    server = joined(start, 17)
    [call] = server.ask(RequestCode.LOCK_BATCH_MQ, {"group": "g"}, [[topic, 2]])
    assert server.say(call, 22) == []
    [question] = server.asked
    assert question.code == code
    assert question.fields.get("timestamp", "17") == "17"


def test_commits_are_calls_of_their_own_and_refusals_are_named() -> None:
    server = joined()
    rows = [["t", 0, 5, 1], ["t", 1, 6, 1], ["t", 2, -1, 1]]
    first, second = server.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {"group": "g"}, rows)
    assert (first.fields["commitOffset"], second.fields["queueId"]) == ("5", "1")
    assert server.say(first) == []
    [command] = server.say(second, 17)
    assert msgpack.unpackb(command.body or b"") == [["t", 1, 17, ""]]


def test_a_member_in_order_locks_first_and_asks_only_for_the_offsets_of_what_it_got() -> None:
    server = joined(ordered=True)
    [lock] = server.ask(RequestCode.LOCK_BATCH_MQ, {"group": "g"}, [["t", 0], ["t", 1]])
    assert lock.code == 41
    said = json.loads(lock.body or b"")
    assert (said["consumerGroup"], said["clientId"]) == ("g", "c@1")
    assert said["mqSet"][0] == {"topic": "t", "brokerName": "broker-a", "queueId": 0}
    server.say(lock, body=locks(1))
    [question] = server.asked
    assert (question.code, question.fields["queueId"]) == (14, "1")
    [command] = server.say(question, offset=7)
    leases: Any = msgpack.unpackb(command.body or b"")
    granted, refused = leases
    assert [(row[1], row[3]) for row in granted] == [(1, 7)]
    assert refused == [["t", 0, ""]]


def test_a_queue_in_order_is_committed_before_its_lock_ends_and_others_have_none() -> None:
    server = joined(ordered=True)
    [lock] = server.ask(RequestCode.LOCK_BATCH_MQ, {"group": "g"}, [["t", 0]])
    server.say(lock, body=locks(0))
    server.say(server.asked[0], offset=7)
    [commit] = server.ask(RequestCode.UNLOCK_BATCH_MQ, {"group": "g"}, [["t", 0, 9, 1]])
    assert (commit.code, commit.fields["commitOffset"]) == (15, "9")
    assert server.say(commit) == []
    [unlock] = server.asked
    assert (unlock.code, json.loads(unlock.body or b"")["mqSet"][0]["queueId"]) == (42, 0)
    assert len(server.say(unlock)) == 1
    [commit] = server.ask(RequestCode.UNLOCK_BATCH_MQ, {"group": "g"}, [["t", 0, 9, 1]])
    assert len(server.say(commit)) == 1, "it no longer has a lock to end"


def granted_at(server: Server, offset: int) -> Any:
    """Where a queue begins that the broker has this committed offset of."""
    [question] = server.ask(RequestCode.LOCK_BATCH_MQ, {"group": "g"}, [["t", 0]])
    [command] = server.say(question, offset=offset)
    leases: Any = msgpack.unpackb(command.body or b"")
    return leases[0][0][3]


def test_a_broker_that_was_killed_and_forgot_commits_does_not_send_an_owner_back() -> None:
    server = joined()
    assert granted_at(server, 5) == 5
    [commit] = server.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {"group": "g"}, [["t", 0, 20, 1]])
    server.say(commit)
    assert granted_at(server, 6) == 20
    assert granted_at(server, 30) == 30
    [commit] = server.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {"group": "g", "reset": True}, [["t", 0, 3, 1]])
    server.say(commit)
    assert granted_at(server, 3) == 3
    [commit] = server.ask(RequestCode.UNLOCK_BATCH_MQ, {"group": "g"}, [["t", 0, 25, 1]])
    server.say(commit)
    assert granted_at(server, 0) == 0, "who gave a queue up knows nothing of it"


def test_who_was_refused_a_lock_forgets_its_own_commits_because_another_member_goes_on() -> None:
    server = joined(ordered=True)

    def lock(*granted: int) -> list[Any]:
        [call] = server.ask(RequestCode.LOCK_BATCH_MQ, {"group": "g"}, [["t", 0]])
        received = server.say(call, body=locks(*granted))
        if granted:
            received = server.say(server.asked[0], offset=3)
        leases: Any = msgpack.unpackb(received[0].body or b"")
        return [row[3] for row in leases[0]]

    assert lock(0) == [3]
    [commit] = server.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {"group": "g"}, [["t", 0, 20, 1]])
    server.say(commit)
    assert lock(0) == [20]
    assert lock() == []
    assert lock(0) == [3]
