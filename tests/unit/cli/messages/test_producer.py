from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.messages import producer
from client.admin.producers import ProducerGroup, ProducerGroupInfo, ProducerMember
from model.transaction import OpenTransaction

GROUPS = (
    ProducerGroup(group="mail", members=2, open=0, oldest_s=0.0, waiting=0),
    ProducerGroup(group="shop", members=0, open=3, oldest_s=71.4, waiting=3),
)
SHOP = ProducerGroupInfo(
    group="shop",
    members=(ProducerMember(client_id="10.0.0.1@7", address="10.0.0.1:5", answers_checks=False),),
    open=3,
    transactions=(OpenTransaction("id-1", "orders", 71.4, 2, -1.0), OpenTransaction("id-2", "orders", 9.0, 1, 27.2)),
)


def run(monkeypatch: pytest.MonkeyPatch, answer: Any, *arguments: str) -> tuple[str, str]:
    monkeypatch.setattr(producer, "ask_cluster", lambda namesrv, ask: answer)
    done = CliRunner().invoke(app, ["producer", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def test_a_list_shows_open_transactions_and_notes_those_that_no_one_can_be_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, err = run(monkeypatch, GROUPS, "list")
    assert "open transactions" in out
    (row,) = [line for line in out.splitlines() if "shop" in line]
    assert row.split() == ["shop", "0", "3", "71", "s", "3"]
    assert "3 transactions wait for a producer of shop" in err
    document = json.loads(run(monkeypatch, GROUPS, "list", "--json")[0])
    assert [each["open"] for each in document["groups"]] == [0, 3]


def test_a_list_of_none_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no transaction is open" in "".join(run(monkeypatch, (), "list"))


def test_a_group_is_shown_with_members_and_its_oldest_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = run(monkeypatch, SHOP, "show", "shop")
    assert out.startswith("producer group shop: 1 member, 3 open transactions")
    assert "waits for a producer" in out
    assert "in 27 s" in out
    assert "oldest 2; 3 are open" in err
    document = json.loads(run(monkeypatch, SHOP, "show", "shop", "--json")[0])
    assert document["transactions"][0]["message_id"] == "id-1"
    assert document["members"][0]["answers_checks"] is False
