"""A text for people has its nouns in the right form: no "1 messages"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.unit.source_tree import Source, parse, shipped

NOUNS = (
    "attempts brokers calls connections consumers copies events files fields groups keys letters members messages "
    "passes producers queues rebalances records replicas requests rows segments servers sessions times topics "
    "transactions users"
)
BEHIND = re.compile(rf" (?:{NOUNS.replace(' ', '|')})\b")
LIMIT_BEFORE = re.compile(r"\b(?:of|than|most|least|all|the|up to|each) $", re.IGNORECASE)
"""Behind these words is a total or a limit, which is rarely one and does not count the noun."""

WORDS = frozenset({"direction", "here", "name", "what", "where"})
"""Names of values that are words, such as the kind of the messages."""

ALLOWED = {
    "cli/servers/descriptors.py {limit} files": "a process of Unix may open several hundred",
    "cli/group/mode.py {members} members": "behind a number and 'of its'",
    "client/leases/requests.py {len(queues)} queues": "one queue is named instead",
    "client/pop/requests.py {len(decoded)} messages": "an error of our own encoding",
    "pipeline/sink/rows.py {longest} keys": "more than are allowed",
    "rocketmq/outward/routes.py {n} queues": "less than 0 or more than are allowed",
    "testbed/demo/story.py {MORE_QUEUES * BROKERS} queues": "a constant",
    "testbed/demo/view.py {state.messages.sent / max(1.0, seconds)} messages": "a rate",
    "traces/check/passes.py {n} passes": "one pass is another branch",
    "testbed/crash/run.py {options.damage} times": "the phase of a run, several by default",
    "testbed/crash/run.py {options.power_cuts} times": "the phase of a run, several by default",
    "testbed/simulation/engine/transactions.py {n} times": "more than once",
    "traces/check/owners.py {len(recent)} times": "more than once",
    "traces/check/words.py {verdict.found} times": "one time is another branch",
    "traces/figures/faults.py {row.done} times": "one time is another branch",
    "traces/why/words.py {len(story.handouts)} times": "twice or more",
    "traces/why/words.py {n} members": "one member is another branch",
}
"""Texts with a number that is never one, each with the reason."""

SIZES = ("pipeline/strategies/plot.py", "testbed/bench/")
"""Benchmarks and their charts, whose texts name their sizes: a thousand queues, a hundred members."""


def fixed_plurals(source: Source) -> Iterator[str]:
    """The places where a number of the run stands before a plural, and the words."""
    for node in source.nodes:
        if not isinstance(node, ast.JoinedStr):
            continue
        before = ""
        for part, behind in pairwise([*node.values, ast.Constant("")]):
            if isinstance(part, ast.Constant):
                before = str(part.value)
                continue
            word = BEHIND.match(str(behind.value)) if isinstance(behind, ast.Constant) else None
            if (
                word
                and isinstance(part, ast.FormattedValue)
                and not LIMIT_BEFORE.search(before)
                and is_number(part.value)
            ):
                yield f"{source.path} {{{ast.unparse(part.value)}}}{word[0]}"
            before = ""


def is_number(value: ast.expr) -> bool:
    """Whether a value may be a number of the run: not a constant such as MAX_KEYS, and not a word."""
    match value:
        case ast.Name(id=name):
            return not name.isupper() and name not in WORDS
        case ast.Attribute(attr=name):
            return name not in WORDS
    return not isinstance(value, ast.IfExp)


def test_a_number_of_a_run_never_stands_before_a_fixed_plural() -> None:
    found = {text for source in shipped() if not source.path.startswith(SIZES) for text in fixed_plurals(source)}
    assert found == set(ALLOWED), "use counted() of model/counted.py"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('f"group {group} has {n} members: stop them"', ["client/x.py {n} members"]),
        ('f"{len(calls):,} requests are unanswered"', ["client/x.py {len(calls)} requests"]),
        ("f\"{counted(n, 'member')} of {n} members, at most {n} queues, {MAX_KEYS} keys, {kind.name} messages\"", []),
    ],
)
def test_fixed_plurals_are_found(text: str, found: list[str]) -> None:
    assert list(fixed_plurals(parse("client/x.py", text))) == found
