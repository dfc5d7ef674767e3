"""One lesson: its folder as a record, and the faults that are left in a solution of it. Pure.

    lab.toml    title = "...", minutes = 15
                [[ask]]      name, accepts and hint: a line of the file answers.toml
                [repair]     may_change: parts of programme.toml that may differ; most_moves: of queues, in the run

Work is done when each answer is one of those that are accepted, and the changed programme keeps its promises.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.counted import plural
from model.errors import ConfigError

MAX_MINUTES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonQuestion:
    """A question of a lesson: its name in the file of answers, and the right answers."""

    name: str
    accepts: tuple[str, ...]
    hint: str  # names the place to look at, not the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """The parts of the programme that may be changed so that it keeps its promises."""

    may_change: tuple[str, ...]
    most_moves: int | None = None  # of queues, in the whole run


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A lesson; `name` is that of its folder."""

    name: str
    title: str
    minutes: int
    asks: tuple[LessonQuestion, ...]
    repair: Repair | None


def parse_lesson(name: str, text: str) -> Lesson:
    """Read a lab.toml.

    Raises:
        ConfigError: something is missing or wrong, with the name of the lesson.
    """
    try:
        table: dict[str, Any] = tomllib.loads(text)
        asks = tuple(
            LessonQuestion(name=str(ask["name"]), accepts=tuple(map(str, ask["accepts"])), hint=str(ask["hint"]))
            for ask in table.get("ask", ())
        )
        repair = table.get("repair")
        lesson = Lesson(
            name=name,
            title=str(table["title"]),
            minutes=int(table["minutes"]),
            asks=asks,
            repair=None
            if repair is None
            else Repair(may_change=tuple(map(str, repair["may_change"])), most_moves=repair.get("most_moves")),
        )
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"lesson {name}: lab.toml is wrong: {error!r}") from error
    if not lesson.asks and lesson.repair is None:
        raise ConfigError(f"lesson {name}: lab.toml has neither an [[ask]] nor a [repair], so nothing can be checked")
    if not 1 <= lesson.minutes <= MAX_MINUTES:
        raise ConfigError(f"lesson {name}: minutes must be 1 to {MAX_MINUTES}, got {lesson.minutes}")
    return lesson


def make_template(lesson: Lesson) -> str:
    """The file of answers as it is at first."""
    return "".join(f'{ask.name} = ""\n' for ask in lesson.asks)


def wrong_answers(lesson: Lesson, text: str) -> list[str]:
    """A line for each answer that is missing or wrong.

    Raises:
        ConfigError: it is not TOML.
    """
    try:
        answers = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"answers.toml is not TOML: {error}") from error
    problems = []
    for ask in lesson.asks:
        answer = _plain(answers.get(ask.name, ""))
        if not answer:
            problems.append(f"{ask.name}: no answer yet. {ask.hint}")
        elif answer not in map(_plain, ask.accepts):
            problems.append(f"{ask.name}: {answers[ask.name]!r} is not right. {ask.hint}")
    return problems


def changed_too_much(repair: Repair, given_text: str, work: str) -> list[str]:
    """A line for each part of the programme that has to stay as it was.

    Raises:
        ConfigError: the work is not TOML.
    """
    given_document = tomllib.loads(given_text)
    try:
        work_document = tomllib.loads(work)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"programme.toml is not TOML: {error}") from error
    allowed = frozenset(repair.may_change)
    return [
        f"programme.toml: {part} must stay as it was; only {', '.join(repair.may_change)} may be changed"
        for part in dict.fromkeys((*_flat(given_document), *_flat(work_document)))
        if _flat(given_document).get(part) != _flat(work_document).get(part) and part not in allowed
    ]


def too_many_moves(repair: Repair, moves: int) -> list[str]:
    """A line if the run moved more queues than the lesson allows."""
    if repair.most_moves is None or moves <= repair.most_moves:
        return []
    return [f"the run moved queues {plural(moves, 'time')}; {repair.most_moves} are enough"]


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`cluster.quirks` -> its value, for every value; of rows, `group.mode` -> those of all rows."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict) and name != "step":
            for column in dict.fromkeys(key for row in value for key in row):
                flat[f"{prefix}{name}.{column}"] = [row.get(column) for row in value]
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _plain(answer: object) -> str:
    return "".join(str(answer).lower().split())
