"""Features: which hooks are called, in which order, and what their answers come to together."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from broker.feature import Feature, Features
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode

HOOKS = [name for name, value in vars(Feature).items() if inspect.isfunction(value)]


class Parked(Feature):
    """Notes the calls of two hooks."""

    def __init__(self, name: str, calls: list[tuple[Any, ...]]) -> None:
        self.name = name
        self.calls = calls

    def queue_changed(self, topic: str, queue_id: int) -> None:
        self.calls.append((self.name, topic, queue_id))

    def expire(self, now: float) -> None:
        self.calls.append((self.name, now))


class Serving(Feature):
    """Answers questions."""

    def __init__(self, code: RequestCode, deadline: float | None, offset: int, groups: tuple[str, ...] = ()) -> None:
        self.code = code
        self.deadline = deadline
        self.offset = offset
        self.groups = groups

    def handlers(self) -> dict[RequestCode, Any]:
        return {self.code: self.serve}

    def serve(self, connection: Connection, request: Command) -> Reply:
        return Reply({})

    def next_deadline(self) -> float | None:
        return self.deadline

    def needed_from(self) -> dict[tuple[int, int], int]:
        return {(self.offset, 0): self.offset}

    def stats(self) -> dict[str, int]:
        return {f"held_{self.offset}": self.offset}

    def has_group_data(self, group: str) -> bool:
        return group in self.groups

    def is_popped(self, group: str, topic: str) -> bool:
        return (group, topic) == (self.groups[0] if self.groups else "", "t")


def test_a_hook_is_called_for_every_feature_that_has_it_in_the_order_of_the_list() -> None:
    calls: list[tuple[Any, ...]] = []
    features = Features()
    for name in ("leases", "messages", "pop"):
        assert features.add(Parked(name, calls)).name == name
    features.queue_changed("t", 3)
    features.expire(1.5)
    assert calls == [
        ("leases", "t", 3),
        ("messages", "t", 3),
        ("pop", "t", 3),
        ("leases", 1.5),
        ("messages", 1.5),
        ("pop", 1.5),
    ]


def test_a_feature_costs_nothing_at_hooks_that_it_does_not_override() -> None:
    features = Features()
    features.add(Feature())
    features.add(Parked("only", []))
    counts = {name: len(features._hooks[name]) for name in HOOKS}
    assert {name for name, n in counts.items() if n} == {"queue_changed", "expire"}
    assert counts["queue_changed"] == 1


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_called_for_every_feature_that_has_it(name: str) -> None:
    calls: list[str] = []
    answers: dict[str, Any] = {
        "handlers": {},
        "needed_from": {},
        "stats": {},
        "has_group_data": False,
        "is_popped": False,
    }

    def hook(feature: Feature, *arguments: object) -> Any:
        calls.append(name)
        return answers.get(name)

    features = Features()
    for _ in range(2):
        features.add(type("One", (Feature,), {name: hook})())
        features.add(Feature())
    getattr(features, name)(*[None] * (len(inspect.signature(getattr(Feature, name)).parameters) - 1))
    assert calls == [name, name]


def test_the_list_has_a_method_with_the_parameters_of_every_hook() -> None:
    for name in HOOKS:
        hook, caller = inspect.signature(getattr(Feature, name)), inspect.signature(getattr(Features, name))
        assert list(hook.parameters) == list(caller.parameters), name


def test_a_feature_without_overrides_does_nothing_and_knows_nothing() -> None:
    feature = Feature()
    assert [*feature.handlers(), *feature.needed_from(), *feature.stats()] == []
    assert feature.next_deadline() is None
    assert not feature.has_group_data("g")
    assert not feature.is_popped("g", "t")
    assert feature.needed_message((1, 0)) is None
    assert not feature.copy_forward((1, 0), 100)
    feature.close()


def test_answers_of_all_features_are_brought_together() -> None:
    features = Features()
    features.add(Serving(RequestCode.PULL_MESSAGE, 7.0, 1, ("g",)))
    features.add(Serving(RequestCode.POP_MESSAGE, None, 2))
    features.add(Serving(RequestCode.SEND_MESSAGE, 5.0, 3, ("h",)))
    assert list(features.handlers()) == [RequestCode.PULL_MESSAGE, RequestCode.POP_MESSAGE, RequestCode.SEND_MESSAGE]
    assert features.next_deadline() == 5.0
    assert features.needed_from() == {(1, 0): 1, (2, 0): 2, (3, 0): 3}
    assert features.stats() == {"held_1": 1, "held_2": 2, "held_3": 3}
    assert features.has_group_data("h")
    assert not features.has_group_data("i")
    assert features.is_popped("h", "t")
    assert not features.is_popped("h", "u")


def test_nothing_is_pending_without_features() -> None:
    features = Features()
    assert features.next_deadline() is None
    assert features.handlers() == {}
    assert not features.has_group_data("g")


def test_two_features_cannot_serve_one_request() -> None:
    features = Features()
    features.add(Serving(RequestCode.PULL_MESSAGE, None, 1))
    features.add(Serving(RequestCode.PULL_MESSAGE, None, 2))
    with pytest.raises(AssertionError, match="two features serve"):
        features.handlers()
