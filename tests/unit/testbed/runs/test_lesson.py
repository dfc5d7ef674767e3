from __future__ import annotations

import pytest

from model.errors import ConfigError
from testbed.runs.lesson import Repair, changed_too_much, parse_lesson, too_many_moves, wrong_answers

LAB = """
title = "x"
minutes = 10
[[ask]]
name = "member"
accepts = ["billing-1", "one"]
hint = "Look."
"""


def test_an_answer_may_be_written_in_any_case_and_with_spaces() -> None:
    lesson = parse_lesson("x", LAB)
    assert wrong_answers(lesson, 'member = " Billing-1 "') == []
    assert wrong_answers(lesson, 'member = "one"') == []
    assert wrong_answers(lesson, 'member = "two"') == ["member: 'two' is not right. Look."]
    assert wrong_answers(lesson, "") == ["member: no answer yet. Look."]
    with pytest.raises(ConfigError, match=r"answers\.toml is not TOML"):
        wrong_answers(lesson, "member =")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'title'"),
        ("title = 'x'\nminutes = 10", "nothing can be checked"),
        (LAB.replace("minutes = 10", "minutes = 100"), "minutes must be 1 to 60"),
        ("title =", "lab.toml is wrong"),
    ],
)
def test_a_teacher_learns_what_is_wrong_with_a_lesson(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match="lesson mine: ") as error:
        parse_lesson("mine", text)
    assert said in str(error.value)


def test_only_the_named_parts_of_a_programme_may_be_changed() -> None:
    given = 'seed = 1\n[cluster]\nquirks = ["A"]\n[[group]]\nname = "g"\nmode = "pull"\n'
    repair = Repair(may_change=("cluster.quirks", "group.mode"))
    assert changed_too_much(repair, given, given.replace('["A"]', "[]").replace("pull", "pop")) == []
    [line] = changed_too_much(repair, given, given.replace("seed = 1", "seed = 2"))
    assert line == "programme.toml: seed must stay as it was; only cluster.quirks, group.mode may be changed"
    assert changed_too_much(repair, given, given + "session_s = 1.0\n") != []
    with pytest.raises(ConfigError, match=r"programme\.toml is not TOML"):
        changed_too_much(repair, given, "seed =")


def test_a_run_may_be_bound_to_few_moves() -> None:
    assert too_many_moves(Repair(may_change=(), most_moves=5), 5) == []
    assert too_many_moves(Repair(may_change=()), 50) == []
    assert too_many_moves(Repair(may_change=(), most_moves=5), 6) == ["the run moved queues 6 times; 5 are enough"]
