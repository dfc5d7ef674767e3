"""Finds settings that must be the same for all members of a group, and are not. Pure.

Each member allocates and filters on its own, so some settings are right only if all members have the same value.
RocketMQ checks none of them: its users find queues that no member reads, and messages that are lost (#92, #1467).

    A: AVG, orders=*     B: AVG, orders=*     C: CONSISTENT_HASH, orders=red

    strategy          AVG (A, B), CONSISTENT_HASH (C)
    filter of orders  * (A, B), red (C)

Different topics are not a disagreement: a topic is assigned to the members that subscribe to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from model.assignment import BROKER_STRATEGY
from model.heartbeat import ConsumerData, ConsumeType, MessageModel

STRATEGY, MODEL, DELIVERY = "strategy", "model", "delivery"
_FILTER_OF = "filter of "

_SHOWN_SUBJECTS, _SHOWN_VALUES, _SHOWN_MEMBERS, _SHOWN_CHARS = 3, 4, 3, 80
"""A report names a few members and values of each kind: people read it, and answers to heartbeats carry it."""

_CONSEQUENCES = {
    STRATEGY: "no member consumes some of the queues",
    MODEL: "the broadcasting members read what the others read, too",
    DELIVERY: "messages are delivered both ways, so twice",
}
_OF_BROKER = "the broker assigns all queues and its members get those that no other member holds, so loads are uneven"
_OF_FILTERS = "a message that only some members want is skipped where another one has its queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One value of a setting, and the client ids of the members that have it, sorted."""

    value: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """One setting that differs between members, with two or more values, the one with the most members first.

    `what` is `strategy`, `model`, `delivery`, or `filter of TOPIC`.
    """

    what: str
    sides: tuple[Side, ...]

    @property
    def consequence(self) -> str:
        """The effect on the group."""
        if self.what == STRATEGY and any(side.value == BROKER_STRATEGY for side in self.sides):
            return _OF_BROKER
        return _CONSEQUENCES.get(self.what, _OF_FILTERS)

    def __str__(self) -> str:
        sides = [
            f"{_cut(side.value)} ({_first_names(list(side.members), _SHOWN_MEMBERS)})"
            for side in self.sides[:_SHOWN_VALUES]
        ]
        return f"{self.what}: {', '.join(sides)}{_and_more(len(self.sides) - _SHOWN_VALUES)}"


def agreed_settings(data: ConsumerData) -> dict[str, str]:
    """Return the settings of a member that have to be the same for all.

    Strategy, delivery and filters matter only in a clustering group: each broadcasting member reads all queues.
    """
    settings = {MODEL: data.model.value}
    if data.model is MessageModel.CLUSTERING:
        settings[STRATEGY] = data.strategy
        settings[DELIVERY] = "POP" if data.consume_type is ConsumeType.POP else "PULL"
        for subscription in data.subscriptions:
            # Sorted, because the order of tags means nothing.
            tags = subscription.tags
            value = subscription.sql or ("*" if tags is None else " || ".join(sorted(tags)))
            settings[_FILTER_OF + subscription.topic] = f"SQL {value}" if subscription.is_sql else value
    return settings


def disagreements(members: Mapping[str, ConsumerData]) -> tuple[Disagreement, ...]:
    """Find all settings that differ between the members, by client id; sorted by `setting`, empty if they agree."""
    clients_by_value: dict[str, dict[str, list[str]]] = {}
    for client_id in sorted(members):
        for setting, value in agreed_settings(members[client_id]).items():
            clients_by_value.setdefault(setting, {}).setdefault(value, []).append(client_id)
    return tuple(
        Disagreement(
            what=setting,
            sides=tuple(
                Side(value=value, members=tuple(client_ids))
                for value, client_ids in sorted(
                    clients_by_value[setting].items(), key=lambda side: (-len(side[1]), side[0])
                )
            ),
        )
        for setting in sorted(clients_by_value)
        if len(clients_by_value[setting]) > 1
    )


def describe(disagreements: Iterable[Disagreement]) -> str:
    """Describe in one line the settings that differ, the members of each value, and the effect; "" if they agree."""
    disagreements = list(disagreements)
    shown_texts = [f"{each}: {each.consequence}" for each in disagreements[:_SHOWN_SUBJECTS]]
    return "; ".join(shown_texts) + _and_more(len(disagreements) - _SHOWN_SUBJECTS)


class SettingsTally:
    """Counts the values of each setting in one group, so that a heartbeat need not look through thousands of members.

    The result of `split` changes when the differing settings or their values change, not when one more member has a
    known value.
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._split: dict[str, None] = {}
        self._answer: tuple[tuple[str, tuple[str, ...]], ...] | None = ()  # of `split`; None if it has changed since

    def has(self, setting: str, value: str) -> bool:
        """Return whether any member has a value of a setting."""
        return value in self._counts.get(setting, ())

    def add(self, data: ConsumerData) -> None:
        """Count the settings of a new member, or the new settings of one."""
        self._answer = None
        for setting, value in agreed_settings(data).items():
            counts = self._counts.setdefault(setting, {})
            counts[value] = counts.get(value, 0) + 1
            if len(counts) > 1:
                self._split[setting] = None

    def remove(self, data: ConsumerData) -> None:
        """Undo `add`, with the same data."""
        self._answer = None
        for setting, value in agreed_settings(data).items():
            counts = self._counts[setting]
            counts[value] -= 1
            if not counts[value]:
                del counts[value]
            if len(counts) <= 1:
                self._split.pop(setting, None)
            if not counts:
                del self._counts[setting]

    def split(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return each setting that differs, with all its values; sorted."""
        if self._answer is None:
            self._answer = tuple((setting, tuple(sorted(self._counts[setting]))) for setting in sorted(self._split))
        return self._answer


def _first_names(names: list[str], max_shown: int) -> str:
    return ", ".join(names[:max_shown]) + _and_more(len(names) - max_shown)


def _and_more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."
