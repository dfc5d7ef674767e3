from __future__ import annotations

import logging

import pytest

from client.instance.refusals import HeartbeatRefusals, Refusals
from model.errors import (
    ClientIdConflict,
    ConnectFailed,
    InvalidParameter,
    NoPermission,
    NotAuthenticated,
    RlabError,
    SystemBusy,
)
from model.message_queue import MessageQueue

Q0, Q1 = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)
OFF = NoPermission("switched off")


def test_a_group_is_warned_of_once_until_none_of_its_queues_is_refused_any_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusals = Refusals()
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            for queue in (Q0, Q1):
                refusals.add("c", "g", queue, OFF)
        refusals.add("c", "other", Q0, OFF)
        refusals.discard("c", "g", Q0)
        refusals.discard("c", "g", Q0)
        refusals.add("c", "g", Q0, OFF)
        assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"], "one for each group"
        refusals.discard("c", "g", Q0)
        refusals.discard("c", "g", Q1)
        assert caplog.records[-1].message == "c: group g is refused no messages any more"
        refusals.add("c", "g", Q1, OFF)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO", "WARNING"]
    assert list(refusals.refused) == ["other", "g"]


def test_a_refused_heartbeat_reaches_who_asks_and_is_final_when_it_has_lasted_for_a_session() -> None:
    refusals = HeartbeatRefusals()
    refusals.refused("b:1", InvalidParameter("too many"), 10.0)
    refusals.check(["a:1"])
    with pytest.raises(InvalidParameter, match="broker b:1 refuses this client: too many"):
        refusals.check(["a:1", "b:1"])
    refusals.refused("b:1", InvalidParameter("still too many"), 39.0)
    assert refusals.final("b:1", 39.9, 30.0) is None
    assert str(refusals.final("b:1", 40.0, 30.0)) == "still too many"
    assert refusals.final("a:1", 40.0, 30.0) is None
    refusals.accepted("b:1")
    refusals.check(["b:1"])
    refusals.refused("b:1", ClientIdConflict("taken"), 50.0)
    assert refusals.final("b:1", 79.0, 30.0) is None, "counted anew"


@pytest.mark.parametrize("error", [SystemBusy("x"), ConnectFailed("x"), NotAuthenticated("x")])
def test_what_may_succeed_without_a_change_here_is_no_refusal(error: RlabError) -> None:
    refusals = HeartbeatRefusals()
    refusals.refused("b:1", error, 0.0)
    refusals.check(["b:1"])
    assert refusals.final("b:1", 99.0, 30.0) is None


def test_a_missing_right_is_said_to_who_starts_and_ends_no_consumer_that_runs() -> None:
    refusals = HeartbeatRefusals()
    refusals.refused("b:1", NoPermission("no right"), 0.0)
    with pytest.raises(NoPermission):
        refusals.check(["b:1"])
    assert refusals.final("b:1", 99.0, 30.0) is None
