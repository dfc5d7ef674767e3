"""A programme is read from its own text again, and a text that is none is refused with its place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import ConfigError
from testbed.simulation.engine.draw import KINDS, draw
from testbed.simulation.engine.programme import GroupPart, LoadPart, Programme, Step
from testbed.simulation.engine.text import parse_programme, write_programme, write_test

SHORT = Programme(load=LoadPart(messages=20), step=(Step(at_s=1.0, do="stop", who="billing-1"),), lasts_s=3.0)


@given(seed=st.integers(0, 10_000), kind=st.sampled_from(KINDS))
def test_what_was_written_is_read_again(seed: int, kind: str) -> None:
    programme = draw(seed, kind)
    assert parse_programme(write_programme(programme)) == programme


def test_only_what_differs_from_its_default_is_written() -> None:
    programme = Programme(
        seed=7,
        about='two "words"',
        group=(GroupPart(name="g", topics=("orders",), fails=0.5),),
        step=(Step(at_s=1.0, do="partition", who="g-1", to="broker-a", one_way=True),),
    ).with_quirks(["SILENT_EXPIRY"])
    assert write_programme(programme) == (
        'about = "two \\"words\\""\nseed = 7\n'
        '\n[cluster]\nquirks = ["SILENT_EXPIRY"]\n'
        '\n[[group]]\nname = "g"\ntopics = ["orders"]\nfails = 0.5\n'
        '\n[[step]]\nat_s = 1.0\ndo = "partition"\nwho = "g-1"\nto = "broker-a"\none_way = true\n'
    )
    assert parse_programme(write_programme(programme)) == programme


def test_a_programme_may_be_nothing_but_defaults() -> None:
    assert parse_programme("") == Programme()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed =", "not a programme: Invalid value"),
        ("sead = 7", "programme: unknown name 'sead'; did you mean seed?"),
        ("seed = 'x'", "programme: seed must be a whole number, got 'x'"),
        ("seed = true", "programme: seed must be a whole number, got True"),
        ("cluster = 1", "cluster: expected a table, got 1"),
        ("[step]\ndo = 'cut'", "step: write it as [[step]], because there may be several"),
        ("[[step]]\ndo = 'heal'", "step 1: 'at_s' is missing"),
        ("[[step]]\nat_s = 1\ndo = 'heal'\n[[step]]\nat_s = 1\nwho = 'x'", "step 2: 'do' is missing"),
        ("[[group]]\nname = 'g'\ntopics = 'orders'", "group 1: topics must be a list of strings, got 'orders'"),
        ("[[group]]\nname = 'g'\ntopics = [1]", "group 1: topics must be a list of strings, got [1]"),
        ("[[group]]\nname = 'g'\nzzz = 1", "group 1: unknown name 'zzz'; known are name, topics,"),
    ],
)
def test_a_text_that_is_not_a_programme_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_programme(text)
    assert said in str(refused.value)


def test_the_test_that_is_written_passes_without_the_defect_and_fails_with_it() -> None:
    def of(programme: Programme) -> Any:
        made: dict[str, Any] = {}
        exec(compile(write_test(programme, 'double-owner "x"'), "test_made.py", "exec"), made)
        return made["test_the_programme_keeps_its_promises"]

    of(SHORT)()
    with pytest.raises(AssertionError):
        of(SHORT.with_quirks(["OVERLAPPING_HANDOVER"]))()
