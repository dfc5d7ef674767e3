from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from model.event_log import encode_events
from model.events import Event, EventKind
from tests.unit.traces.check.histories import clean, numbered, plant_double_owner, plant_out_of_order
from tests.unit.traces.figures.group_events import Story


def written(story: Story, path: Path) -> Path:
    path.write_bytes(encode_events(numbered(story)))
    return path


def test_a_good_trace_is_a_yes(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(written(clean(), tmp_path / "t.jsonl")), "--all-consumed"])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1].startswith("Yes: ")
    assert "messages of g: 30 acknowledged, 30 processed" in done.stdout


def test_a_bad_trace_is_a_no_with_its_events_a_page_and_json(tmp_path: Path) -> None:
    story = clean()
    plant_double_owner(story)
    trace, page = written(story, tmp_path / "t.jsonl"), tmp_path / "page.html"
    done = CliRunner().invoke(app, ["check", str(trace), "--html", str(page)])
    assert done.exit_code == 1
    assert "double-owner: Broker b granted the lease of t@b:1 to c2 while c1 held it." in done.stdout
    assert "LOCK_GRANTED" in done.stdout
    assert "<svg" in page.read_text(encoding="utf-8")
    document = json.loads(CliRunner().invoke(app, ["check", str(trace), "--json"]).stdout)
    assert document["answer"] == "no"
    assert [each["rule"] for each in document["anomalies"]] == ["double-owner"]


def test_what_was_done_on_purpose_is_listed_and_breaks_no_rule(tmp_path: Path) -> None:
    trace, page = tmp_path / "t.jsonl", tmp_path / "page.html"
    events = [*numbered(clean())]
    last = events[-1]
    began = Event(last.t_ms + 100, "x", 1, EventKind.FAULT_BEGAN, broker="x", detail="cut client=<c2>")
    healed = Event(last.t_ms + 300, "x", 2, EventKind.FAULT_HEALED, "x/1", broker="x", n=1, detail="cut client=<c2>")
    trace.write_bytes(encode_events([*events, began, healed]))
    done = CliRunner().invoke(app, ["check", str(trace), "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert "injected fault: cut client=<c2>, at x, from " in done.stdout
    assert "<li>cut client=&lt;c2&gt;, at x, from " in page.read_text(encoding="utf-8")
    document = json.loads(CliRunner().invoke(app, ["check", str(trace), "--json"]).stdout)
    assert [(each["cause"], each["over_ms"]) for each in document["faults"]] == [("x/1", healed.t_ms)]


def test_order_is_judged_for_the_groups_that_keep_it(tmp_path: Path) -> None:
    story = clean()
    plant_out_of_order(story)
    trace = str(written(story, tmp_path / "t.jsonl"))
    assert CliRunner().invoke(app, ["check", trace]).exit_code == 0
    assert CliRunner().invoke(app, ["check", trace, "--order", "g=queue"]).exit_code == 1


def test_a_trace_with_holes_is_unknown_and_one_without_a_judged_group_too(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    events = numbered(clean())
    trace.write_bytes(encode_events(event for event in events if event.kind != "NOTIFY_RECEIVED"))
    done = CliRunner().invoke(app, ["check", str(trace)])
    assert done.exit_code == 3
    assert "Unknown: " in done.stdout
    assert CliRunner().invoke(app, ["check", str(trace), "--complete"]).exit_code == 0
    assert CliRunner().invoke(app, ["check", str(trace), "--group", "other"]).exit_code == 3


def test_a_trace_without_an_event_of_a_broker_that_its_members_name_is_unknown(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_bytes(encode_events(event for event in numbered(clean()) if event.node != "b"))
    done = CliRunner().invoke(app, ["check", str(trace)])
    assert done.exit_code == 3
    assert "the part of the trace that is on b is missing: no event is of b" in done.stdout


def test_two_files_are_one_history(tmp_path: Path) -> None:
    events = numbered(clean())
    for name, node in (("a", "b"), ("b", "c1")):
        of_node = [event for event in events if (event.node == node) is (name == "a")]
        (tmp_path / name).write_bytes(encode_events(of_node))
    done = CliRunner().invoke(app, ["check", str(tmp_path / "a"), str(tmp_path / "b")])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        (None, [], "there is no trace"),
        (b"", [], "has no events"),
        (b"not json\n", [], "has no events: not an event"),
        (b"", ["--order", "g"], "say GROUP=queue or GROUP=key"),
    ],
)
def test_what_was_given_wrong_is_one_line(
    tmp_path: Path, content: bytes | None, arguments: list[str], said: str
) -> None:
    trace = tmp_path / "t.jsonl"
    if content is not None:
        trace.write_bytes(content)
    done = CliRunner().invoke(app, ["check", str(trace), *arguments])
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_page_that_cannot_be_written_is_not_the_answer_no_and_takes_nothing_from_it(tmp_path: Path) -> None:
    trace, page = written(clean(), tmp_path / "t.jsonl"), tmp_path / "nowhere" / "page.html"
    done = CliRunner().invoke(app, ["check", str(trace), "--html", str(page)])
    assert done.exit_code == 2
    assert "Yes: " in done.stdout
    assert done.stderr == f"error: cannot write the page {page}: No such file or directory\n"
