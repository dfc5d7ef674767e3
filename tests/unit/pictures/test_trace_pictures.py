from __future__ import annotations

import pytest

from model.events import Event, EventKind
from model.limits import MAX_HELD_EVENTS, MAX_PICTURES
from pictures import trace_pictures
from pictures.trace_pictures import SETTLE_MS, TracePictures


def owned(t_ms: float, client: str, queue: int, group: str = "g") -> Event:
    kind = EventKind.QUEUE_ACQUIRED.value
    return Event(t_ms, client, 1, kind, f"{client}/1", group, "t", "b", queue, client, version=1, offset=0)


def test_an_event_of_a_slow_node_takes_its_place_among_those_that_are_held() -> None:
    pictures = TracePictures(0.0)
    pictures.add([owned(1_000, "c2", 1)])
    pictures.advance(1_000 + SETTLE_MS - 1)
    assert pictures.groups == {}

    pictures.add([owned(900, "c1", 0)])
    pictures.advance(1_000 + SETTLE_MS)

    assert pictures.groups["g"].document()["changes"] == [900, 0, 0, 1, 1_000, 1, 1, 1]
    assert pictures.settled_ms == 1_000


def test_what_happens_to_brokers_is_a_cause_for_every_group() -> None:
    pictures = TracePictures(0.0)
    down = Event(1_500, "b", 7, EventKind.BROKER_DOWN.value, "b/7", broker="b", detail="b")
    pictures.add([owned(1_000, "c1", 0), owned(1_000, "c1", 0, "h"), down])
    after = owned(1_600, "c2", 0)._replace(cause="b/7", version=2)
    pictures.add([after, after._replace(group="h")])
    pictures.advance(10_000)

    for picture in pictures.groups.values():
        assert "broker b went down" in [each["because"] for each in picture.document()["rebalances"]]
        assert picture.moves_of("b/7")[-1].owner == "c2"


def test_more_events_than_are_held_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_HELD_EVENTS > 1
    monkeypatch.setattr(trace_pictures, "MAX_HELD_EVENTS", 1)
    pictures = TracePictures(0.0)

    pictures.add([owned(1_000, "c1", 0), owned(2_000, "c1", 1)])

    assert pictures.groups["g"].document()["changes"] == [1_000, 0, 0, 1]


def test_events_that_no_picture_shows_take_no_place_from_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_pictures, "MAX_HELD_EVENTS", 1)
    pictures = TracePictures(0.0)

    shown_nowhere = Event(1_001, "b", 1, EventKind.OFFSET_COMMITTED.value, "b/1", "g", "t", "b", 0, "c1")
    pictures.add([owned(1_000, "c1", 0), shown_nowhere])

    assert pictures.groups == {}, "the first still waits for events of other nodes"


def test_groups_beyond_the_bound_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_PICTURES > 1
    monkeypatch.setattr(trace_pictures, "MAX_PICTURES", 1)
    pictures = TracePictures(0.0)

    pictures.add([owned(1_000, "c1", 0, "first"), owned(1_001, "c1", 0, "second")])
    pictures.advance(10_000)

    assert list(pictures.groups) == ["first"]
