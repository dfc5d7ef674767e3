from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console, RenderableType

from model.counted import plural
from testbed.demo.report import milliseconds, result_document, step_line, step_table, verdict, words
from testbed.demo.story import DemoResult
from testbed.simulation.checks.ownership import RebalanceStep


def step(**changes: Any) -> RebalanceStep:
    defaults: dict[str, Any] = {
        "step": "c4 goes silent",
        "cause": "MEMBER_LEAVE expiry",
        "trigger": "NOTIFY+LOCK",
        "members": 4,
        "queues_moved": 6,
        "noticed_ms": 2_998.4,
        "converged_ms": 3_021.26,
    }
    return RebalanceStep(**{**defaults, **changes})


def result(**changes: Any) -> DemoResult:
    defaults: dict[str, Any] = {
        "ok": True,
        "sent": 60_000,
        "received_unique": 60_000,
        "lost": 0,
        "duplicates": 12,
        "consumers": 5,
        "queues": 24,
        "double_owner_ms": 0.0,
        "orphan_ms": 12_345.678,
        "broken": (),
        "rebalances": [step()],
    }
    return DemoResult(**{**defaults, **changes})


def shown(renderable: RenderableType, width: int = 80) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(renderable)
    return file.getvalue()


def test_the_table_has_a_row_per_rebalance_that_fits_eighty_columns() -> None:
    text = shown(step_table([step(), step(step="broker-b restarts", converged_ms=None)]))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert "converged" in lines[1]
    row = next(line for line in lines if "c4 goes silent" in line)
    for cell in ("member leave", "NOTIFY LOCK", "4", "6", "3,021 ms"):
        assert cell in row
    assert "never" in next(line for line in lines if "broker-b restarts" in line)


def test_a_passed_demo_says_so_and_how_the_silent_consumer_was_replaced() -> None:
    text = " ".join(shown(verdict(result()), 120).split())
    assert text.startswith("PASSED 60,000 messages acknowledged, every one received, 12 received twice.")
    assert "group converged after every step" in text
    assert "expired after 2,998 ms and its queues were reassigned 23 ms later" in text
    assert "two owners: 0.0 ms; without one: 12,346 ms, summed over 24 queues" in text
    assert text.endswith("The history keeps every rule of rlab check.")


def test_a_failed_demo_names_what_failed() -> None:
    failed = result(ok=False, lost=3, rebalances=[step(converged_ms=None), step(step="c2 leaves", converged_ms=None)])
    text = " ".join(shown(verdict(failed), 120).split())
    assert text.startswith("FAILED 60,000 messages acknowledged, 3 of them never received")
    assert "did not converge after: c4 goes silent, c2 leaves." in text
    assert "flap: q went to and fro" in shown(verdict(result(ok=False, broken=("flap: q went to and fro",))))


def test_the_document_has_exactly_the_promised_fields() -> None:
    document = result_document(result(rebalances=[step(), step(converged_ms=None)]))
    assert json.loads(json.dumps(document)) == {
        "ok": True,
        "sent": 60_000,
        "received_unique": 60_000,
        "lost": 0,
        "duplicates": 12,
        "consumers": 5,
        "queues": 24,
        "double_owner_ms": 0.0,
        "orphan_ms": 12_345.7,
        "broken": [],
        "rebalances": [
            {
                "step": "c4 goes silent",
                "cause": "MEMBER_LEAVE expiry",
                "trigger": "NOTIFY+LOCK",
                "members": 4,
                "queues_moved": 6,
                "converged_ms": converged_ms,
            }
            for converged_ms in (3_021.3, None)
        ],
    }


def test_a_line_says_what_came_of_a_step() -> None:
    assert step_line(step(queues_moved=1, members=1)) == (
        "c4 goes silent: converged in 3,021 ms, 1 queue moved, 1 member"
    )
    assert step_line(step(converged_ms=None)) == "c4 goes silent: did not converge"


@pytest.mark.parametrize(("value", "text"), [(0.04, "0.0 ms"), (9.94, "9.9 ms"), (10, "10 ms"), (1_234.5, "1,234 ms")])
def test_times_have_the_digits_that_people_need(value: float, text: str) -> None:
    assert milliseconds(value) == text


def test_words_and_counts_read_as_english() -> None:
    assert words("MEMBER_LEAVE expiry") == "member leave expiry"
    assert (plural(0, "queue"), plural(1, "queue"), plural(2, "queue")) == (
        "0 queues",
        "1 queue",
        "2 queues",
    )
