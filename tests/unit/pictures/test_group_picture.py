from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.events import Event, EventKind
from model.limits import MAX_PICTURE_CHANGES, MAX_PICTURE_NAMES
from pictures import group_picture
from pictures.group_picture import NONE, GroupPicture, Names

BASE_MS = 1_000_000.0


def acquired(t: float, client: str, queue: int, token: int = 1, seq: int = 0) -> Event:
    kind, cause = EventKind.QUEUE_ACQUIRED.value, f"{client}/1"
    return Event(BASE_MS + t, client, seq or int(t), kind, cause, "g", "t", "b", queue, client, token, 0)


def dropped(t: float, client: str, queue: int, token: int = 1) -> Event:
    return acquired(t, client, queue, token)._replace(kind=EventKind.QUEUE_DROPPED.value, detail="revoked")


def started(t: float, client: str) -> Event:
    return Event(BASE_MS + t, client, 1, EventKind.CLIENT_START.value, f"{client}/1", group="g", client=client)


def picture(events: Iterable[Event]) -> GroupPicture:
    made = GroupPicture("g", BASE_MS)
    for event in events:
        made.feed(event)
    return made


def test_each_change_of_hands_is_reported_with_its_time_its_queue_and_its_owner() -> None:
    events = [acquired(100, "c1", 3), dropped(150, "c1", 3), acquired(160, "c2", 3, token=2)]

    document = picture(events).document()

    assert (document["queues"], document["clients"]) == (["t@b:3"], ["c1", "c2"])
    assert document["changes"] == [100, 0, 0, 1, 150, 0, NONE, 0, 160, 0, 1, 1]
    assert document["members"] == [100, 1, 160, 2]


def test_of_two_owners_at_once_the_later_one_is_shown_with_their_number() -> None:
    document = picture([acquired(100, "c1", 0), acquired(120, "c2", 0, token=2)]).document()

    assert document["changes"] == [100, 0, 0, 1, 120, 0, 1, 2]


def test_a_rebalance_is_reported_in_words_and_again_when_it_has_cost_more() -> None:
    made = picture([started(90, "c1"), acquired(100, "c1", 0)])
    [first] = made.changes()["rebalances"]
    made.feed(acquired(130, "c1", 1))
    [second] = made.changes()["rebalances"]

    assert (first["because"], first["moves"], first["began"], first["ended"]) == ("c1 started", 1, 90, 100)
    assert (second["cause"], second["moves"], second["ended"]) == (first["cause"], 2, 130)
    assert "rebalances" not in made.changes(), "nothing has come since"


def test_the_moves_of_a_rebalance_are_found_by_its_cause_also_before_their_first_message() -> None:
    made = picture([started(90, "c1"), acquired(100, "c1", 0)])
    [rebalance] = made.document()["rebalances"]

    [move] = made.moves_of(rebalance["cause"])
    assert (str(move.queue), move.owner) == ("t@b:0", "c1")
    assert made.moves_of("c9/9") == []


@given(
    st.lists(
        st.tuples(st.sampled_from(("c1", "c2", "c3")), st.integers(0, 2), st.booleans(), st.booleans()), max_size=40
    )
)
def test_the_news_added_up_are_the_document(steps: list[tuple[str, int, bool, bool]]) -> None:
    made = GroupPicture("g", BASE_MS)
    reported: dict[str, list[Any]] = {"queues": [], "clients": [], "changes": [], "members": []}
    rebalances: dict[str, Any] = {}

    def listen() -> None:
        news = made.changes()
        for name, received in reported.items():
            received.extend(news.get(name, []))
        rebalances.update({each["cause"]: each for each in news.get("rebalances", [])})

    for number, (client, queue, is_end, ask) in enumerate(steps):
        made.feed((dropped if is_end else acquired)(100.0 + number, client, queue, token=number))
        if ask:
            listen()
    listen()
    document = made.document()
    assert {name: document[name] for name in reported} == reported
    assert sorted(rebalances) == sorted(each["cause"] for each in document["rebalances"])


def test_beyond_its_bound_the_oldest_change_is_forgotten_and_the_owner_before_the_rest_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MAX_PICTURE_CHANGES > 1
    monkeypatch.setattr(group_picture, "MAX_PICTURE_CHANGES", 2)

    document = picture([acquired(100, "c1", 0), dropped(150, "c1", 0), acquired(160, "c2", 0, token=2)]).document()

    assert document["before"] == [0, 0]
    assert document["changes"] == [150, 0, NONE, 0, 160, 0, 1, 1]


def test_names_beyond_the_bound_share_the_last_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_PICTURE_NAMES > 1
    monkeypatch.setattr(group_picture, "MAX_PICTURE_NAMES", 2)
    names = Names()

    assert [names.place(name) for name in ("a", "b", "c", "a")] == [0, 1, 1, 0]
    assert (names.unsent(), names.unsent(), names.all()) == (["a", "b"], [], ["a", "b"])
