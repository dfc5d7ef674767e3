"""Answers about group settings; changing them is tests/simulation/test_group_settings.py."""

from __future__ import annotations

import msgpack

from client.admin.group_settings import settings_by_broker
from client.admin.requests import Answer
from model.errors import ConnectFailed, RequestCodeNotSupported
from model.group_settings import GroupSettings
from remoting.command import Command


def test_brokers_that_know_no_settings_or_do_not_answer_are_left_out() -> None:
    settings = GroupSettings(consume=False)
    answer = Command(0, 0, 0, {"is_set": True, **settings.added}, msgpack.packb(settings.to_wire()))
    answers: dict[str, Answer] = {
        "c": answer,
        "b": RequestCodeNotSupported("old"),
        "a": answer,
        "d": ConnectFailed("away"),
    }
    assert list(settings_by_broker(answers)) == ["a", "c"]
    assert settings_by_broker(answers)["a"] == settings
