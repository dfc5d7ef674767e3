from __future__ import annotations

import logging

import pytest

from client.instance.refusals import Refusals
from model.errors import NoPermission
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
